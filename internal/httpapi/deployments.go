package httpapi

import (
	"berth/internal/base/ids"
	"berth/internal/derive/progress"
	"berth/internal/httpapi/convert/deployments"
	"berth/internal/wire"
)

// What is read and written of deployments.
var (
	deploymentList = read(wire.DeploymentList, listBy(), listed(func(v *progress.View) string {
		return wire.KeyOfDeployment(v.Deployment)
	}, deployments.Deployment))
	deploymentGet = read(wire.DeploymentGet, byID[ids.Deployment]("deployment"),
		one("deployment", public(deployments.Deployment)))
	deploymentAllocs  = read(wire.DeploymentAllocs, byID[ids.Deployment]("deployment"), allocLines)
	deploymentPromote = write(wire.DeploymentPromote, changes(deployments.ToPromote), deploymentDone)
	deploymentFail    = write(wire.DeploymentFail, changes(deployments.ToFail), deploymentDone)
	deploymentPause   = write(wire.DeploymentPause, changes(deployments.ToPause), deploymentDone)
	deploymentHealth  = write(wire.DeploymentSetHealth, changes(deployments.ToHealth), deploymentDone)

	jobDeployment  = read(wire.DeploymentOfJob, deploymentsOf(true), as(deployments.Latest))
	jobDeployments = read(wire.DeploymentOfJob, deploymentsOf(false), as(deployments.All))
)
