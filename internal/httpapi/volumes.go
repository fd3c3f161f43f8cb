package httpapi

import (
	"strings"
	"time"

	"berth/api"
	"berth/internal/base/ids"
	"berth/internal/httpapi/access"
	"berth/internal/httpapi/audit"
	"berth/internal/httpapi/convert"
	"berth/internal/httpapi/params"
	"berth/internal/model/volume"
	"berth/internal/wire"
)

func (r *request) volumeID() volume.ID {
	return volume.ID{Namespace: r.ns, ID: ids.Volume(r.PathValue("id"))}
}

// waitFor reads how long the caller wants to wait for the provider.
func (r *request) waitFor() (time.Duration, error) { return parsed(params.WaitFor(r.URL.Query())) }

func (r *request) headerSecrets() (wire.Secrets, error) {
	values, err := parsed(convert.HeaderSecrets(r.Header.Get("X-Nomad-CSI-Secrets")))
	return wire.Secrets{Values: values}, err
}

// secretsAndWait reads what orders to a provider come with.
func (r *request) secretsAndWait() (wire.Secrets, time.Duration, error) {
	wait, err := r.waitFor()
	if err != nil {
		return wire.Secrets{}, 0, err
	}
	secrets, err := r.headerSecrets()
	return secrets, wait, err
}

func (s *Server) volumeList(r *request) (any, error) {
	switch r.arg("type") {
	case "csi":
		return csiVolumes(s, r)
	case "", "host":
	default:
		return nil, missing("resource not found")
	}
	if _, err := r.query(); err != nil {
		return nil, err
	}
	return s.volumeClaims(r)
}

var csiVolumes = read(wire.VolumeList, func(r *request) (*wire.VolumeListRequest, error) {
	q, err := r.list()
	plugin, node := ids.Plugin(r.arg("plugin_id")), ids.Node(r.arg("node_id"))
	return &wire.VolumeListRequest{Query: q, Plugin: plugin, Node: node, Lines: true}, err
}, func(r *request, out *wire.VolumeLines) (any, error) {
	out.Complete()
	return table[wire.VolumeLine]{
		key: func(v wire.VolumeLine) string { return wire.KeyOfVolume(v.ID) },
		row: func(v wire.VolumeLine) any { return convert.VolumeStub(&v, out.Plugins[v.Plugin]) },
	}.show(r, out.Lines, out.NextToken)
})

var volumeGet = read(wire.VolumeGet, byName, one("volume", func(v *wire.VolumeView) any { return convert.Volume(v) }))

// volumeUsage asks the nodes, which alone know it.
var volumeUsage = call(wire.VolumeUsages, byName, as(convert.VolumeUsage))

var (
	volumeCreate   = volumeWrite(wire.VolumeCreate)
	volumeRegister = volumeWrite(wire.VolumeRegister)
)

// volumeWrite creates or registers every volume of the body, one after another.
func volumeWrite(method wire.Method[wire.VolumeWriteRequest, wire.VolumeWriteReply]) handler {
	return func(s *Server, r *request) (any, error) {
		var body api.CSIVolumeRegisterRequest
		if err := r.read(&body); err != nil {
			return nil, err
		}
		if len(body.Volumes) == 0 {
			return nil, badRequest("missing volume definition")
		}
		wait, err := r.waitFor()
		if err != nil {
			return nil, err
		}
		reply := &api.CSIVolumeRegisterResponse{Volumes: []*api.CSIVolume{}}
		warnings := convert.Overrides(body.PolicyOverride)
		for _, v := range body.Volumes {
			req, err := r.volumeRequest(v)
			if err != nil {
				return nil, err
			}
			req.Wait = wait
			out, err := method.Call(r.Context(), s.cfg.Servers, req)
			if err != nil {
				return nil, err
			}
			warnings = append(warnings, out.Warnings...)
			reply.Volumes = append(reply.Volumes, convert.Volume(&wire.VolumeView{Volume: out.Volume}))
			reply.Results = append(reply.Results, convert.VolumeResult(out))
			r.written(out.Index)
		}
		reply.Warnings = convert.WarningText(warnings)
		return reply, nil
	}
}

// volumeRequest asks for one volume of a body.
func (r *request) volumeRequest(v *api.CSIVolume) (*wire.VolumeWriteRequest, error) {
	if v == nil {
		return nil, badRequest("missing volume definition")
	}
	if asked := r.PathValue("id"); asked != "" && v.ID != asked {
		return nil, badRequest(`the volume's ID "` + v.ID + `" does not match the path's "` + asked + `"`)
	}
	req := convert.ToVolumeWrite(v, r.ns)
	audit.Of(r.Context()).About(req.Volume.Namespace, string(req.Volume.ID))
	return req, nil
}

var volumeExpand = write(wire.VolumeExpand, func(r *request) (*wire.VolumeExpandRequest, error) {
	var body api.CSIVolumeExpandRequest
	if err := r.read(&body); err != nil {
		return nil, err
	}
	wait, err := r.waitFor()
	if err == nil && (body.CapacityMin <= 0 || body.CapacityMax < 0) {
		err = badRequest("CapacityMin must be a positive number of bytes")
	}
	return &wire.VolumeExpandRequest{Volume: r.volumeID(), Min: body.CapacityMin, Max: body.CapacityMax, Wait: wait},
		err
}, func(out *wire.VolumeWriteReply) (uint64, any) {
	return out.Index, convert.Expanded(out)
})

var volumeDelete = write(wire.VolumeDelete, func(r *request) (*wire.VolumeDeleteRequest, error) {
	secrets, wait, err := r.secretsAndWait()
	return &wire.VolumeDeleteRequest{Volume: r.volumeID(), Secrets: secrets, Wait: wait}, err
}, ended)

// ended answers an order to destroy: with nothing when it has ended, as clients expect that wait for it.
func ended(out *wire.Written) (uint64, any) {
	if out.Waits == "" {
		return empty(out)
	}
	return out.Index, &api.CSIVolumeWriteResult{Outcome: wire.Accepted, Waits: out.Waits}
}

var volumeDeregister = write(wire.VolumeDeregister, func(r *request) (*wire.VolumeDeleteRequest, error) {
	return &wire.VolumeDeleteRequest{Volume: r.volumeID(), Force: r.flag("force"), Reason: r.arg("reason")}, nil
}, empty)

var volumeDetach = write(wire.VolumeDetach, func(r *request) (*wire.VolumeDetachRequest, error) {
	node := r.arg("node")
	if node == "" {
		return nil, badRequest("detach requires node ID")
	}
	return &wire.VolumeDetachRequest{
		Volume: r.volumeID(),
		Node:   ids.Node(node),
		Attest: r.arg("attest"),
		By:     access.Peer(r.Request),
	}, nil
}, empty)

var volumeRelease = write(wire.VolumeRelease, func(r *request) (*wire.VolumeReleaseRequest, error) {
	if r.arg("node") == "" || strings.TrimSpace(r.arg("reason")) == "" {
		return nil, badRequest("node and reason are required")
	}
	return &wire.VolumeReleaseRequest{
		Volume: r.volumeID(),
		Node:   ids.Node(r.arg("node")),
		Reason: r.arg("reason"),
		By:     access.Peer(r.Request),
	}, nil
}, empty)

func (r *request) perPage() (int, error) { return parsed(params.PerPage(r.URL.Query())) }

var volumesExternal = call(wire.VolumeExternal, func(r *request) (*wire.ExternalListRequest, error) {
	n, err := r.perPage()
	plugin := ids.Plugin(r.arg("plugin_id"))
	return &wire.ExternalListRequest{Plugin: plugin, PerPage: n, NextToken: r.arg("next_token")}, err
}, func(r *request, out *wire.ProviderList[wire.ExternalVolume]) (any, error) {
	r.next = out.NextToken
	reply := &api.CSIVolumeListExternalResponse{
		Volumes:    rows(out.Items, convert.External),
		Incomplete: out.Incomplete,
	}
	reply.NextToken = out.NextToken
	return reply, nil
})

func (s *Server) snapshotCreate(r *request) (any, error) {
	var body api.CSISnapshotCreateRequest
	if err := r.read(&body); err != nil {
		return nil, err
	}
	if len(body.Snapshots) == 0 {
		return nil, badRequest("missing snapshot definition")
	}
	shared, wait, err := r.secretsAndWait()
	if err != nil {
		return nil, err
	}
	reply := &api.CSISnapshotCreateResponse{Snapshots: []*api.CSISnapshot{}}
	var warnings []string
	for _, sn := range body.Snapshots {
		if sn == nil {
			return nil, badRequest("missing snapshot definition")
		}
		audit.Of(r.Context()).About(r.ns, sn.SourceVolumeID)
		out, err := wire.SnapshotCreate.Call(r.Context(), s.cfg.Servers,
			convert.ToSnapshotCreate(sn, r.ns, shared, wait, r.arg("following") == "true"))
		if err != nil {
			return nil, err
		}
		r.written(out.Index)
		reply.Snapshots = append(reply.Snapshots, convert.Snapshot(out.Snapshot))
		reply.Results = append(reply.Results, api.CSIVolumeWriteResult{Outcome: out.Outcome, Waits: out.Waits})
		warnings = append(warnings, out.Warnings...)
	}
	reply.Warnings = convert.WarningText(warnings)
	return reply, nil
}

var snapshotList = call(wire.SnapshotList, func(r *request) (*wire.SnapshotListRequest, error) {
	n, err := r.perPage()
	if err != nil {
		return nil, err
	}
	secrets, err := r.headerSecrets()
	return &wire.SnapshotListRequest{
		Plugin:    ids.Plugin(r.arg("plugin_id")),
		Secrets:   secrets,
		PerPage:   n,
		NextToken: r.arg("next_token"),
	}, err
}, func(r *request, out *wire.ProviderList[*volume.Snapshot]) (any, error) {
	r.next = out.NextToken
	reply := &api.CSISnapshotListResponse{Snapshots: rows(out.Items, convert.Snapshot), Incomplete: out.Incomplete}
	reply.NextToken = out.NextToken
	return reply, nil
})

var snapshotDelete = write(wire.SnapshotDelete, func(r *request) (*wire.SnapshotDeleteRequest, error) {
	secrets, wait, err := r.secretsAndWait()
	return &wire.SnapshotDeleteRequest{
		Namespace:  r.ns,
		Plugin:     ids.Plugin(r.arg("plugin_id")),
		SnapshotID: r.arg("snapshot_id"),
		Secrets:    secrets,
		Wait:       wait,
	}, err
}, ended)

var pluginList = read(wire.PluginList, func(r *request) (*wire.Query, error) {
	q, err := r.list()
	if t := r.arg("type"); err == nil && t != "" && t != "csi" {
		err = missing("resource not found")
	}
	return &q, err
}, listed(func(p *wire.PluginView) string { return wire.KeyOfPlugin(p.Record.ID) }, convert.PluginStub))

var pluginGet = read(wire.PluginGet, byName, one("plugin", public(convert.Plugin)))

var pluginRebind = write(wire.PluginRebind, body((*request).read, convert.ToRebind), convert.Rebound)

// hostVolume answers for dynamic host volumes, which are not built: none exists.
func (s *Server) hostVolume(r *request) (any, error) { return s.never(r, "volume not found") }

func (s *Server) volumeClaims(r *request) (any, error) {
	return s.unchanging(r, []any{})
}
