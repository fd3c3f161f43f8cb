package httpapi

import (
	"strings"
	"time"

	"berth/api"
	"berth/internal/base/ids"
	"berth/internal/httpapi/access"
	"berth/internal/httpapi/audit"
	"berth/internal/httpapi/calls"
	"berth/internal/httpapi/convert"
	"berth/internal/httpapi/params"
	"berth/internal/model/volume"
	"berth/internal/wire"
)

func volumeID(r *calls.Request) volume.ID {
	return volume.ID{Namespace: r.Namespace, ID: ids.Volume(r.PathValue("id"))}
}

// waitFor reads how long the caller wants to wait for the provider.
func waitFor(r *calls.Request) (time.Duration, error) {
	return calls.Parsed(params.WaitFor(r.URL.Query()))
}

func headerSecrets(r *calls.Request) (wire.Secrets, error) {
	values, err := calls.Parsed(convert.HeaderSecrets(r.Header.Get("X-Nomad-CSI-Secrets")))
	return wire.Secrets{Values: values}, err
}

// secretsAndWait reads what orders to a provider come with.
func secretsAndWait(r *calls.Request) (wire.Secrets, time.Duration, error) {
	wait, err := waitFor(r)
	if err != nil {
		return wire.Secrets{}, 0, err
	}
	secrets, err := headerSecrets(r)
	return secrets, wait, err
}

func (s *Server) volumeList(r *calls.Request) (any, error) {
	switch r.Arg("type") {
	case "csi":
		return csiVolumes(r)
	case "", "host":
	default:
		return nil, calls.Missing("resource not found")
	}
	if _, err := r.Query(); err != nil {
		return nil, err
	}
	return s.volumeClaims(r)
}

var csiVolumes = calls.Read(wire.VolumeList, func(r *calls.Request) (*wire.VolumeListRequest, error) {
	q, err := r.List()
	plugin, node := ids.Plugin(r.Arg("plugin_id")), ids.Node(r.Arg("node_id"))
	return &wire.VolumeListRequest{Query: q, Plugin: plugin, Node: node, Lines: true}, err
}, func(r *calls.Request, out *wire.VolumeLines) (any, error) {
	out.Complete()
	return calls.Table[wire.VolumeLine]{
		Key: func(v wire.VolumeLine) string { return wire.KeyOfVolume(v.ID) },
		Row: func(v wire.VolumeLine) any { return convert.VolumeStub(&v, out.Plugins[v.Plugin]) },
	}.Show(r, out.Lines, out.NextToken)
})

var volumeGet = calls.Read(wire.VolumeGet, calls.ByName, calls.One("volume",
	func(v *wire.VolumeView) any { return convert.Volume(v) }))

// volumeUsage asks the nodes, which alone know it.
var volumeUsage = calls.Call(wire.VolumeUsages, calls.ByName, calls.As(convert.VolumeUsage))

var (
	volumeCreate   = volumeWrite(wire.VolumeCreate)
	volumeRegister = volumeWrite(wire.VolumeRegister)
)

// volumeWrite creates or registers every volume of the body, one after another.
func volumeWrite(method wire.Method[wire.VolumeWriteRequest, wire.VolumeWriteReply]) calls.Handler {
	return func(r *calls.Request) (any, error) {
		var body api.CSIVolumeRegisterRequest
		if err := r.Read(&body); err != nil {
			return nil, err
		}
		if len(body.Volumes) == 0 {
			return nil, calls.BadRequest("missing volume definition")
		}
		wait, err := waitFor(r)
		if err != nil {
			return nil, err
		}
		reply := &api.CSIVolumeRegisterResponse{Volumes: []*api.CSIVolume{}}
		warnings := convert.Overrides(body.PolicyOverride)
		for _, v := range body.Volumes {
			req, err := volumeRequest(r, v)
			if err != nil {
				return nil, err
			}
			req.Wait = wait
			out, err := method.Call(r.Context(), r.Servers, req)
			if err != nil {
				return nil, err
			}
			warnings = append(warnings, out.Warnings...)
			reply.Volumes = append(reply.Volumes, convert.Volume(&wire.VolumeView{Volume: out.Volume}))
			reply.Results = append(reply.Results, convert.VolumeResult(out))
			r.Written(out.Index)
		}
		reply.Warnings = convert.WarningText(warnings)
		return reply, nil
	}
}

// volumeRequest asks for one volume of a body.
func volumeRequest(r *calls.Request, v *api.CSIVolume) (*wire.VolumeWriteRequest, error) {
	if v == nil {
		return nil, calls.BadRequest("missing volume definition")
	}
	if asked := r.PathValue("id"); asked != "" && v.ID != asked {
		return nil, calls.BadRequest(`the volume's ID "` + v.ID + `" does not match the path's "` + asked + `"`)
	}
	req := convert.ToVolumeWrite(v, r.Namespace)
	audit.Of(r.Context()).About(req.Volume.Namespace, string(req.Volume.ID))
	return req, nil
}

var volumeExpand = calls.Write(wire.VolumeExpand, func(r *calls.Request) (*wire.VolumeExpandRequest, error) {
	var body api.CSIVolumeExpandRequest
	if err := r.Read(&body); err != nil {
		return nil, err
	}
	wait, err := waitFor(r)
	if err == nil && (body.CapacityMin <= 0 || body.CapacityMax < 0) {
		err = calls.BadRequest("CapacityMin must be a positive number of bytes")
	}
	return &wire.VolumeExpandRequest{Volume: volumeID(r), Min: body.CapacityMin, Max: body.CapacityMax, Wait: wait},
		err
}, func(out *wire.VolumeWriteReply) (uint64, any) {
	return out.Index, convert.Expanded(out)
})

var volumeDelete = calls.Write(wire.VolumeDelete, func(r *calls.Request) (*wire.VolumeDeleteRequest, error) {
	secrets, wait, err := secretsAndWait(r)
	return &wire.VolumeDeleteRequest{Volume: volumeID(r), Secrets: secrets, Wait: wait}, err
}, ended)

// ended answers an order to destroy: with nothing when it has ended, as clients expect that wait for it.
func ended(out *wire.Written) (uint64, any) {
	if out.Waits == "" {
		return calls.Empty(out)
	}
	return out.Index, &api.CSIVolumeWriteResult{Outcome: wire.Accepted, Waits: out.Waits}
}

var volumeDeregister = calls.Write(wire.VolumeDeregister, func(r *calls.Request) (*wire.VolumeDeleteRequest, error) {
	return &wire.VolumeDeleteRequest{Volume: volumeID(r), Force: r.Flag("force"), Reason: r.Arg("reason")}, nil
}, calls.Empty)

var volumeDetach = calls.Write(wire.VolumeDetach, func(r *calls.Request) (*wire.VolumeDetachRequest, error) {
	node := r.Arg("node")
	if node == "" {
		return nil, calls.BadRequest("detach requires node ID")
	}
	return &wire.VolumeDetachRequest{
		Volume: volumeID(r),
		Node:   ids.Node(node),
		Attest: r.Arg("attest"),
		By:     access.Peer(r.Request),
	}, nil
}, calls.Empty)

var volumeRelease = calls.Write(wire.VolumeRelease, func(r *calls.Request) (*wire.VolumeReleaseRequest, error) {
	if r.Arg("node") == "" || strings.TrimSpace(r.Arg("reason")) == "" {
		return nil, calls.BadRequest("node and reason are required")
	}
	return &wire.VolumeReleaseRequest{
		Volume: volumeID(r),
		Node:   ids.Node(r.Arg("node")),
		Reason: r.Arg("reason"),
		By:     access.Peer(r.Request),
	}, nil
}, calls.Empty)

func perPage(r *calls.Request) (int, error) { return calls.Parsed(params.PerPage(r.URL.Query())) }

var volumesExternal = calls.Call(wire.VolumeExternal, func(r *calls.Request) (*wire.ExternalListRequest, error) {
	n, err := perPage(r)
	plugin := ids.Plugin(r.Arg("plugin_id"))
	return &wire.ExternalListRequest{Plugin: plugin, PerPage: n, NextToken: r.Arg("next_token")}, err
}, func(r *calls.Request, out *wire.ProviderList[wire.ExternalVolume]) (any, error) {
	r.Next = out.NextToken
	reply := &api.CSIVolumeListExternalResponse{
		Volumes:    calls.Rows(out.Items, convert.External),
		Incomplete: out.Incomplete,
	}
	reply.NextToken = out.NextToken
	return reply, nil
})

func (s *Server) snapshotCreate(r *calls.Request) (any, error) {
	var body api.CSISnapshotCreateRequest
	if err := r.Read(&body); err != nil {
		return nil, err
	}
	if len(body.Snapshots) == 0 {
		return nil, calls.BadRequest("missing snapshot definition")
	}
	shared, wait, err := secretsAndWait(r)
	if err != nil {
		return nil, err
	}
	reply := &api.CSISnapshotCreateResponse{Snapshots: []*api.CSISnapshot{}}
	var warnings []string
	for _, sn := range body.Snapshots {
		if sn == nil {
			return nil, calls.BadRequest("missing snapshot definition")
		}
		audit.Of(r.Context()).About(r.Namespace, sn.SourceVolumeID)
		out, err := wire.SnapshotCreate.Call(r.Context(), r.Servers,
			convert.ToSnapshotCreate(sn, r.Namespace, shared, wait, r.Arg("following") == "true"))
		if err != nil {
			return nil, err
		}
		r.Written(out.Index)
		reply.Snapshots = append(reply.Snapshots, convert.Snapshot(out.Snapshot))
		reply.Results = append(reply.Results, api.CSIVolumeWriteResult{Outcome: out.Outcome, Waits: out.Waits})
		warnings = append(warnings, out.Warnings...)
	}
	reply.Warnings = convert.WarningText(warnings)
	return reply, nil
}

var snapshotList = calls.Call(wire.SnapshotList, func(r *calls.Request) (*wire.SnapshotListRequest, error) {
	n, err := perPage(r)
	if err != nil {
		return nil, err
	}
	secrets, err := headerSecrets(r)
	return &wire.SnapshotListRequest{
		Plugin:    ids.Plugin(r.Arg("plugin_id")),
		Secrets:   secrets,
		PerPage:   n,
		NextToken: r.Arg("next_token"),
	}, err
}, func(r *calls.Request, out *wire.ProviderList[*volume.Snapshot]) (any, error) {
	r.Next = out.NextToken
	reply := &api.CSISnapshotListResponse{Snapshots: calls.Rows(out.Items, convert.Snapshot),
		Incomplete: out.Incomplete}
	reply.NextToken = out.NextToken
	return reply, nil
})

var snapshotDelete = calls.Write(wire.SnapshotDelete, func(r *calls.Request) (*wire.SnapshotDeleteRequest, error) {
	secrets, wait, err := secretsAndWait(r)
	return &wire.SnapshotDeleteRequest{
		Namespace:  r.Namespace,
		Plugin:     ids.Plugin(r.Arg("plugin_id")),
		SnapshotID: r.Arg("snapshot_id"),
		Secrets:    secrets,
		Wait:       wait,
	}, err
}, ended)

var pluginList = calls.Read(wire.PluginList, func(r *calls.Request) (*wire.Query, error) {
	q, err := r.List()
	if t := r.Arg("type"); err == nil && t != "" && t != "csi" {
		err = calls.Missing("resource not found")
	}
	return &q, err
}, calls.Listed(func(p *wire.PluginView) string { return wire.KeyOfPlugin(p.Record.ID) }, convert.PluginStub))

var pluginGet = calls.Read(wire.PluginGet, calls.ByName, calls.One("plugin", calls.Public(convert.Plugin)))

var pluginRebind = calls.Write(wire.PluginRebind, calls.Form((*calls.Request).Read, convert.ToRebind), convert.Rebound)

// hostVolume answers for dynamic host volumes, which are not built: none exists.
func (s *Server) hostVolume(r *calls.Request) (any, error) { return s.never(r, "volume not found") }

func (s *Server) volumeClaims(r *calls.Request) (any, error) {
	return s.unchanging(r, []any{})
}
