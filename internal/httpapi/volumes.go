package httpapi

import (
	"maps"
	"time"

	"berth/api"
	"berth/internal/base/ids"
	"berth/internal/httpapi/convert"
	"berth/internal/model/volume"
	"berth/internal/wire"
)

func (r *request) volumeID() volume.ID {
	return volume.ID{Namespace: r.ns, ID: ids.Volume(r.PathValue("id"))}
}

// wait reads how long the caller wants to wait for the provider.
func (r *request) waitFor() (time.Duration, error) {
	v := r.arg("wait")
	if v == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(v)
	if err != nil || d < 0 {
		return 0, badRequest("Invalid wait time")
	}
	return d, nil
}

func (r *request) headerSecrets() (wire.Secrets, error) {
	values, err := convert.HeaderSecrets(r.Header.Get("X-Nomad-CSI-Secrets"))
	if err != nil {
		return wire.Secrets{}, badRequest(err.Error())
	}
	return wire.Secrets{Values: values}, nil
}

func (s *Server) volumeList(r *request) (any, error) {
	q, err := r.query()
	if err != nil {
		return nil, err
	}
	if t := r.arg("type"); t != "csi" {
		r.seen(wire.Meta{Index: 1, KnownLeader: true})
		return []any{}, nil
	}
	plugin := r.arg("plugin_id")
	out, err := wire.VolumeList.Call(r.Context(), s.cfg.Servers, &wire.VolumeListRequest{Query: q, Plugin: ids.Plugin(plugin), Node: ids.Node(r.arg("node_id"))})
	if err != nil {
		return nil, err
	}
	r.seen(out.Meta)
	views, err := listed(r, out.Volumes, func(v *wire.VolumeView) any { return convert.VolumeStub(v) },
		func(v *wire.VolumeView) string { return string(v.Volume.Namespace) + "." + string(v.Volume.ID.ID) })
	if err != nil {
		return nil, err
	}
	stubs := make([]*api.CSIVolumeListStub, 0, len(views))
	for _, v := range views {
		stubs = append(stubs, convert.VolumeStub(v))
	}
	return stubs, nil
}

func (s *Server) volumeGet(r *request) (any, error) {
	q, err := r.query()
	if err != nil {
		return nil, err
	}
	out, err := wire.VolumeGet.Call(r.Context(), s.cfg.Servers, &wire.VolumeRef{Query: q, Volume: ids.Volume(r.PathValue("id"))})
	if err != nil {
		return nil, err
	}
	r.seen(out.Meta)
	if out.Volume == nil {
		return nil, missing("volume not found")
	}
	return convert.Volume(out.Volume), nil
}

// volumeWrite creates or registers every volume of the body, one after another.
func (s *Server) volumeWrite(method wire.Method[wire.VolumeWriteRequest, wire.VolumeWriteReply]) func(r *request) (any, error) {
	return func(r *request) (any, error) {
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
			if v == nil {
				return nil, badRequest("missing volume definition")
			}
			if asked := r.PathValue("id"); asked != "" && v.ID != asked {
				return nil, badRequest("the volume's ID \"" + v.ID + "\" does not match the path's \"" + asked + "\"")
			}
			req := convert.ToVolumeWrite(v, r.ns)
			req.Wait = wait
			out, err := method.Call(r.Context(), s.cfg.Servers, req)
			if err != nil {
				return nil, err
			}
			warnings = append(warnings, out.Warnings...)
			reply.Volumes = append(reply.Volumes, convert.Volume(&wire.VolumeView{Volume: out.Volume}))
			reply.Results = append(reply.Results, api.CSIVolumeWriteResult{Outcome: out.Outcome, Changed: out.Changed})
			r.seen(wire.Meta{Index: out.Index, KnownLeader: true})
		}
		reply.Warnings = convert.WarningText(warnings)
		return reply, nil
	}
}

func (s *Server) volumeCreate(r *request) (any, error) { return s.volumeWrite(wire.VolumeCreate)(r) }
func (s *Server) volumeRegister(r *request) (any, error) {
	return s.volumeWrite(wire.VolumeRegister)(r)
}

func (s *Server) volumeExpand(r *request) (any, error) {
	var body api.CSIVolumeExpandRequest
	if err := r.read(&body); err != nil {
		return nil, err
	}
	wait, err := r.waitFor()
	if err != nil {
		return nil, err
	}
	if body.CapacityMin <= 0 || body.CapacityMax < 0 {
		return nil, badRequest("CapacityMin must be a positive number of bytes")
	}
	out, err := wire.VolumeExpand.Call(r.Context(), s.cfg.Servers, &wire.VolumeExpandRequest{Volume: r.volumeID(), Min: body.CapacityMin, Max: body.CapacityMax, Wait: wait})
	if err != nil {
		return nil, err
	}
	r.seen(wire.Meta{Index: out.Index, KnownLeader: true})
	return &api.CSIVolumeCreateResponse{Volumes: []*api.CSIVolume{convert.Volume(&wire.VolumeView{Volume: out.Volume})},
		Warnings: convert.WarningText(out.Warnings), Results: []api.CSIVolumeWriteResult{{Outcome: out.Outcome, Changed: out.Changed}}}, nil
}

func (s *Server) volumeDelete(r *request) (any, error) {
	wait, err := r.waitFor()
	if err != nil {
		return nil, err
	}
	secrets, err := r.headerSecrets()
	if err != nil {
		return nil, err
	}
	out, err := wire.VolumeDelete.Call(r.Context(), s.cfg.Servers, &wire.VolumeDeleteRequest{Volume: r.volumeID(), Secrets: secrets, Wait: wait})
	return s.written(r, out, err)
}

func (s *Server) volumeDeregister(r *request) (any, error) {
	out, err := wire.VolumeDeregister.Call(r.Context(), s.cfg.Servers, &wire.VolumeDeleteRequest{Volume: r.volumeID(), Force: r.flag("force"), Reason: r.arg("reason")})
	return s.written(r, out, err)
}

func (s *Server) volumeDetach(r *request) (any, error) {
	node := r.arg("node")
	if node == "" {
		return nil, badRequest("detach requires node ID")
	}
	out, err := wire.VolumeDetach.Call(r.Context(), s.cfg.Servers, &wire.VolumeDetachRequest{Volume: r.volumeID(), Node: ids.Node(node), Attest: r.arg("attest")})
	return s.written(r, out, err)
}

func (s *Server) written(r *request, out *wire.Written, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	r.seen(wire.Meta{Index: out.Index, KnownLeader: true})
	return noReply{}, nil
}

func (r *request) perPage() (int, error) {
	n, err := r.number("per_page")
	if err == nil && (n < 0 || n > 1<<20) {
		err = badRequest("per_page is out of range")
	}
	return int(n), err
}

func (s *Server) volumesExternal(r *request) (any, error) {
	n, err := r.perPage()
	if err != nil {
		return nil, err
	}
	out, err := wire.VolumeExternal.Call(r.Context(), s.cfg.Servers, &wire.ExternalListRequest{Plugin: ids.Plugin(r.arg("plugin_id")), PerPage: n, NextToken: r.arg("next_token")})
	if err != nil {
		return nil, err
	}
	reply := &api.CSIVolumeListExternalResponse{Volumes: []*api.CSIVolumeExternalStub{}, Incomplete: out.Incomplete}
	for _, v := range out.Volumes {
		reply.Volumes = append(reply.Volumes, convert.External(v))
	}
	r.next = out.NextToken
	reply.NextToken = out.NextToken
	return reply, nil
}

func (s *Server) snapshotCreate(r *request) (any, error) {
	var body api.CSISnapshotCreateRequest
	if err := r.read(&body); err != nil {
		return nil, err
	}
	if len(body.Snapshots) == 0 {
		return nil, badRequest("missing snapshot definition")
	}
	wait, err := r.waitFor()
	if err != nil {
		return nil, err
	}
	shared, err := r.headerSecrets()
	if err != nil {
		return nil, err
	}
	reply := &api.CSISnapshotCreateResponse{Snapshots: []*api.CSISnapshot{}}
	for _, sn := range body.Snapshots {
		if sn == nil {
			return nil, badRequest("missing snapshot definition")
		}
		secrets := map[string]string{} // those of the header, and over them those of the snapshot
		maps.Copy(secrets, shared.Values)
		maps.Copy(secrets, sn.Secrets)
		out, err := wire.SnapshotCreate.Call(r.Context(), s.cfg.Servers, &wire.SnapshotCreateRequest{
			Volume: volume.ID{Namespace: r.ns, ID: ids.Volume(sn.SourceVolumeID)}, Name: sn.Name, Parameters: sn.Parameters,
			Secrets: wire.Secrets{Values: secrets}, Wait: wait})
		if err != nil {
			return nil, err
		}
		r.seen(wire.Meta{Index: out.Index, KnownLeader: true})
		reply.Snapshots = append(reply.Snapshots, convert.Snapshot(out.Snapshot))
	}
	return reply, nil
}

func (s *Server) snapshotList(r *request) (any, error) {
	n, err := r.perPage()
	if err != nil {
		return nil, err
	}
	secrets, err := r.headerSecrets()
	if err != nil {
		return nil, err
	}
	out, err := wire.SnapshotList.Call(r.Context(), s.cfg.Servers, &wire.SnapshotListRequest{Plugin: ids.Plugin(r.arg("plugin_id")), Secrets: secrets, PerPage: n, NextToken: r.arg("next_token")})
	if err != nil {
		return nil, err
	}
	reply := &api.CSISnapshotListResponse{Snapshots: []*api.CSISnapshot{}, Incomplete: out.Incomplete}
	for _, sn := range out.Snapshots {
		reply.Snapshots = append(reply.Snapshots, convert.Snapshot(sn))
	}
	r.next = out.NextToken
	reply.NextToken = out.NextToken
	return reply, nil
}

func (s *Server) snapshotDelete(r *request) (any, error) {
	wait, err := r.waitFor()
	if err != nil {
		return nil, err
	}
	secrets, err := r.headerSecrets()
	if err != nil {
		return nil, err
	}
	out, err := wire.SnapshotDelete.Call(r.Context(), s.cfg.Servers, &wire.SnapshotDeleteRequest{Namespace: r.ns, Plugin: ids.Plugin(r.arg("plugin_id")),
		SnapshotID: r.arg("snapshot_id"), Secrets: secrets, Wait: wait})
	return s.written(r, out, err)
}

func (s *Server) pluginList(r *request) (any, error) {
	q, err := r.query()
	if err != nil {
		return nil, err
	}
	if t := r.arg("type"); t != "" && t != "csi" {
		return nil, missing("resource not found")
	}
	out, err := wire.PluginList.Call(r.Context(), s.cfg.Servers, &q)
	if err != nil {
		return nil, err
	}
	r.seen(out.Meta)
	list, err := listed(r, out.Plugins, func(p *wire.PluginView) any { return convert.PluginStub(p) }, func(p *wire.PluginView) string { return string(p.Record.ID) })
	if err != nil {
		return nil, err
	}
	stubs := make([]*api.CSIPluginListStub, 0, len(list))
	for _, p := range list {
		stubs = append(stubs, convert.PluginStub(p))
	}
	return stubs, nil
}

func (s *Server) pluginGet(r *request) (any, error) {
	q, err := r.query()
	if err != nil {
		return nil, err
	}
	out, err := wire.PluginGet.Call(r.Context(), s.cfg.Servers, &wire.PluginRef{Query: q, Plugin: ids.Plugin(r.PathValue("id"))})
	if err != nil {
		return nil, err
	}
	r.seen(out.Meta)
	if out.Plugin == nil {
		return nil, missing("plugin not found")
	}
	return convert.Plugin(out.Plugin), nil
}

// hostVolumes answers for dynamic host volumes, which are not built: none exists.
func (s *Server) hostVolume(*request) (any, error) { return nil, missing("volume not found") }

func (s *Server) volumeClaims(r *request) (any, error) {
	r.seen(wire.Meta{Index: 1, KnownLeader: true})
	return []any{}, nil
}
