package httpapi

import (
	"berth/internal/base/ids"
	"berth/internal/httpapi/calls"
	"berth/internal/httpapi/convert/deployments"
	"berth/internal/wire"
)

// What is read and written of deployments, and changed of jobs by a body that names the same as the path.
var (
	deploymentList = calls.Read(wire.DeploymentList, calls.ListBy(), calls.Listed(deployments.Key,
		deployments.Deployment))
	deploymentGet = calls.Read(wire.DeploymentGet, calls.ByID[ids.Deployment]("deployment"),
		calls.One("deployment", calls.Public(deployments.Deployment)))
	deploymentAllocs  = calls.Read(wire.DeploymentAllocs, calls.ByID[ids.Deployment]("deployment"), allocLines)
	deploymentPromote = calls.Write(wire.DeploymentPromote, calls.Changes(deployments.ToPromote), deploymentDone)
	deploymentFail    = calls.Write(wire.DeploymentFail, calls.Changes(deployments.ToFail), deploymentDone)
	deploymentPause   = calls.Write(wire.DeploymentPause, calls.Changes(deployments.ToPause), deploymentDone)
	deploymentHealth  = calls.Write(wire.DeploymentSetHealth, calls.Changes(deployments.ToHealth), deploymentDone)

	jobDeployment  = calls.Read(wire.DeploymentOfJob, deploymentsOf(true), calls.As(deployments.Latest))
	jobDeployments = calls.Read(wire.DeploymentOfJob, deploymentsOf(false), calls.As(deployments.All))
	jobRevert      = calls.Write(wire.JobRevert, calls.Changes(deployments.ToRevert), registered)
	jobStable      = calls.Write(wire.JobStable, calls.Changes(deployments.ToStable), deployments.Stabilized)
	jobEvaluate    = calls.Write(wire.JobEvaluate, calls.Changes(deployments.ToEvaluate), registered)
)
