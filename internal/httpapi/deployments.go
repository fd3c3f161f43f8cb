package httpapi

import (
	"berth/internal/base/ids"
	"berth/internal/httpapi/convert/deployments"
	"berth/internal/wire"
)

// What is read and written of deployments, and changed of jobs by a body that names the same as the path.
var (
	deploymentList = read(wire.DeploymentList, listBy(), listed(deployments.Key, deployments.Deployment))
	deploymentGet  = read(wire.DeploymentGet, byID[ids.Deployment]("deployment"),
		one("deployment", public(deployments.Deployment)))
	deploymentAllocs  = read(wire.DeploymentAllocs, byID[ids.Deployment]("deployment"), allocLines)
	deploymentPromote = write(wire.DeploymentPromote, changes(deployments.ToPromote), deploymentDone)
	deploymentFail    = write(wire.DeploymentFail, changes(deployments.ToFail), deploymentDone)
	deploymentPause   = write(wire.DeploymentPause, changes(deployments.ToPause), deploymentDone)
	deploymentHealth  = write(wire.DeploymentSetHealth, changes(deployments.ToHealth), deploymentDone)

	jobDeployment  = read(wire.DeploymentOfJob, deploymentsOf(true), as(deployments.Latest))
	jobDeployments = read(wire.DeploymentOfJob, deploymentsOf(false), as(deployments.All))
	jobRevert      = write(wire.JobRevert, changes(deployments.ToRevert), registered)
	jobStable      = write(wire.JobStable, changes(deployments.ToStable), deployments.Stabilized)
	jobEvaluate    = write(wire.JobEvaluate, changes(deployments.ToEvaluate), registered)
)
