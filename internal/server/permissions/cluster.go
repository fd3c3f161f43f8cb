package permissions

import (
	"slices"

	"berth/internal/base/ids"
	"berth/internal/model/acl"
	"berth/internal/server/state"
	"berth/internal/wire"
)

var cluster = slices.Concat(
	// Where servers are is shown to everybody, as it is to who asks for /v1/status/peers; the routes that show more of
	// them say who may see it.
	by(everybody, wire.SystemStatus, wire.SigningKeys, wire.TrustCertify, wire.ServerList),
	by(servers, wire.ServerProgress, wire.ServerAnnounce, wire.ServerLeave, wire.ServerEntries,
		wire.ServerSnapshot),
	[]entry{
		asks(wire.PersonAllowed, func(r *wire.PersonAllowedRequest, _ *state.Snap) []need {
			n := make([]need, len(r.Needs))
			for i := range r.Needs {
				n[i].Need = r.Needs[i]
			}
			return n
		}),
		asks(wire.SystemGC, always[wire.Empty](everything())),
		// It shows of each kind what the caller may see.
		asks(wire.SystemSearch, always[wire.SearchRequest](nil)),
		// They show what the caller may see.
		asks(wire.NamespaceList, always[wire.Query](nil)),
		asks(wire.NamespaceGet, always[wire.Ref[ids.Namespace]](nil)),
		asks(wire.NodePoolList, always[wire.Query](nil)),
		// What is in a namespace, and what its jobs may use, is for who says who may do what in it.
		asks(wire.NamespacePut, always[wire.NamespacePutRequest](everything())),
		asks(wire.NamespaceDelete, always[wire.PartitionDeleteRequest](everything())),
		asks(wire.NodePoolGet, func(r *wire.Ref[string], _ *state.Snap) []need { return onPool(r.ID, acl.Read) }),
		asks(wire.NodePoolPut, func(r *wire.NodePoolPutRequest, _ *state.Snap) []need {
			return onPool(r.Pool.Name, acl.Write)
		}),
		asks(wire.NodePoolDelete, func(r *wire.PartitionDeleteRequest, _ *state.Snap) []need {
			return onPool(r.Name, acl.Delete)
		}),
		// They name jobs of every namespace.
		asks(wire.SystemCounts, always[wire.Query](of(acl.Agent, acl.Read))),

		opens(wire.StateSave, always[wire.Empty](everything())),
		opens(wire.StateRestore, always[wire.RecoveryWord](everything())),
		asks(wire.RecoveryStatus, always[wire.Query](of(acl.Operator, acl.Read))),
		asks(wire.RecoveryBegin, always[wire.RecoveryWord](of(acl.Operator, acl.Write))),
		asks(wire.RecoveryFinish, always[wire.RecoveryWord](of(acl.Operator, acl.Write))),
		asks(wire.RecoveryDismiss, always[wire.RecoveryWord](of(acl.Operator, acl.Write))),
		// A join token makes a node, which is given what is secret of volumes.
		asks(wire.TrustAdmit, always[wire.AdmitRequest](everything())),
		asks(wire.TrustAdmissions, always[wire.Query](of(acl.Operator, acl.Read))),
		asks(wire.TrustRevoke, always[wire.RevokeRequest](of(acl.Operator, acl.Write))),
		asks(wire.TrustRoots, always[wire.Query](of(acl.Operator, acl.Read))),
		// Nodes that do not know the root which is left are lost.
		asks(wire.TrustRotate, always[wire.RotateRootRequest](everything())),
		asks(wire.TrustFinish, always[wire.FinishRootRequest](everything())),
		asks(wire.ServerRemove, always[wire.ServerRef](of(acl.Operator, acl.Write))),
		asks(wire.ServerTransfer, always[wire.ServerRef](of(acl.Operator, acl.Write))),
		asks(wire.AutopilotGet, always[wire.Query](of(acl.Operator, acl.Read))),
		asks(wire.AutopilotPut, always[wire.AutopilotPutRequest](of(acl.Operator, acl.Write))),
		asks(wire.DataKeys, always[wire.Query](of(acl.Operator, acl.Read))),
		// What is sealed with a key that is gone is gone, too.
		asks(wire.DataKeyRotate, always[wire.RotateRequest](everything())),
		asks(wire.DataKeyRemove, always[wire.DataKeyRequest](everything())),
	},
)

var ofNodes = slices.Concat(
	by(nodes, wire.NodeRegister, wire.NodeHeartbeat, wire.NodeAllocs, wire.NodeAllocsKnown, wire.NodeUpdate,
		wire.NodeInventory, wire.NodeInventoryKnown, wire.NodeGrants, wire.NodeControllerCalls, wire.NodeLeave,
		wire.NodeIdentities, wire.NodeServiceIdentity, wire.NodeConsulToken, wire.NodeSources),
	by(servers, wire.AgentVolumeUsage, wire.AgentReleaseVolume, wire.AgentListVolumes, wire.AgentListSnapshots,
		wire.AgentCapacity, wire.AgentValidateVolume),
	[]entry{
		asks(wire.NodeList, always[wire.Query](of(acl.Node, acl.Read))),
		asks(wire.NodeGet, always[wire.Ref[ids.Node]](of(acl.Node, acl.Read))),
		// It lists the allocs that the caller may see.
		asks(wire.NodeAllocList, always[wire.Ref[ids.Node]](of(acl.Node, acl.Read))),
		asks(wire.NodeEligibility, always[wire.NodeEligibilityRequest](of(acl.Node, acl.Write))),
		asks(wire.NodePurge, always[wire.NodePurgeRequest](of(acl.Node, acl.Write))),
		asks(wire.NodeRebootConfirm, always[wire.RebootConfirmRequest](of(acl.Node, acl.Write))),
		asks(wire.AgentForgetMount, always[wire.ForgetMountRequest](of(acl.Node, acl.Write))),
		// Whoever has the token of a readmission can be the node.
		asks(wire.NodeReadmit, always[wire.ReadmitRequest](everything())),
		asks(wire.NodeDeny, always[wire.DenialRequest](of(acl.Operator, acl.Write))),
		// It makes a node, as a join token does.
		asks(wire.NodeAllow, always[wire.DenialRequest](everything())),
		asks(wire.NodeDenials, always[wire.Query](of(acl.Operator, acl.Read))),
		// It ends claims on volumes of every namespace.
		asks(wire.NodeReplace, always[wire.NodeReplaceRequest](everything())),
		asks(wire.AgentHostStats, always[wire.AgentRef](of(acl.Node, acl.Read))),
		asks(wire.AgentMeta, always[wire.AgentRef](of(acl.Node, acl.Read))),
		asks(wire.AgentSetMeta, always[wire.NodeMetaRequest](of(acl.Node, acl.Write))),
		opens(wire.AgentMonitor, always[wire.AgentMonitorRequest](of(acl.Agent, acl.Read))),
	},
)
