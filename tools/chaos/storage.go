package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/api"
)

// lookAtStorage compares the volumes, their claims, and what the provider has, with what was ordered.
func (p *play) lookAtStorage(ctx context.Context, users map[string][]string) ([]waiting, error) {
	plugin, _, err := p.m.api.Plugins().Get(ctx, localCSI, nil)
	if err != nil {
		return []waiting{{"plugin", err.Error()}}, nil
	}
	if plugin.NodesHealthy != 1 || plugin.ControllersHealthy != 1 {
		return []waiting{{"the plugin is not healthy", "it starts"}}, nil
	}
	var out []waiting
	known := map[string]bool{} // external ids of the volumes that are to be
	for _, v := range p.volumes {
		got, _, err := p.m.api.Volumes().Get(ctx, v.id, nil)
		switch {
		case api.IsNotFound(err) && !v.exists:
		case err != nil:
			out = append(out, waiting{"volume " + v.id, err.Error()})
		case !v.exists:
			out = append(out, waiting{"volume " + v.id + " is to be deleted", strings.Join(got.State, "; ")})
		default:
			known[got.ExternalID] = true
			out = append(out, lookAtVolume(v, got, users[v.id])...)
		}
	}
	list, _, err := p.m.api.Volumes().List(ctx, nil)
	if err != nil {
		return append(out, waiting{"the list of volumes", err.Error()}), nil
	}
	for _, got := range list {
		if !slices.ContainsFunc(p.volumes, func(v *volume) bool { return v.id == got.ID }) {
			out = append(out, waiting{"volume " + got.ID + " was never ordered", ""})
		}
	}
	if len(out) > 0 {
		return out, nil
	}
	return p.lookAtProvider(ctx, known), nil
}

func lookAtVolume(v *volume, got *api.CSIVolume, users []string) (out []waiting) {
	claims := slices.Concat(slices.Collect(maps.Keys(got.ReadAllocs)), slices.Collect(maps.Keys(got.WriteAllocs)))
	slices.Sort(claims)
	slices.Sort(users)
	state := strings.Join(got.State, "; ")
	if !slices.Equal(claims, users) {
		out = append(out, waiting{fmt.Sprintf("volume %s has the claims %.8q, its users are %.8q", v.id, claims, users),
			state})
	}
	if !got.Schedulable {
		out = append(out, waiting{"volume " + v.id + " cannot be used", state})
	}
	// Of a volume that was registered nobody knows the size until it grows.
	if got.Capacity > 0 && got.Capacity < v.size && v.from == "" && v.clone == "" {
		out = append(out, waiting{fmt.Sprintf("volume %s has %d bytes of %d", v.id, got.Capacity, v.size), state})
	}
	return out
}

// lookAtProvider compares what the plugin has with what was ordered.
func (p *play) lookAtProvider(ctx context.Context, known map[string]bool) (out []waiting) {
	external, _, err := p.m.api.Volumes().ListExternal(ctx, localCSI, nil)
	if err != nil {
		return []waiting{{"the provider's volumes", err.Error()}}
	}
	for _, v := range external.Volumes {
		if !known[v.ExternalID] {
			out = append(out, waiting{"the provider has the volume " + v.ExternalID + ", which no volume is", ""})
		}
		delete(known, v.ExternalID)
	}
	for id := range known {
		out = append(out, waiting{"the provider lacks the volume " + id, ""})
	}
	snapshots, _, err := p.m.api.Volumes().ListSnapshots(ctx, localCSI, nil, nil)
	if err != nil {
		return append(out, waiting{"the provider's snapshots", err.Error()})
	}
	have := map[string]bool{}
	for _, s := range snapshots.Snapshots {
		have[s.ID] = true
	}
	for _, s := range p.snaps {
		if !have[s.id] {
			out = append(out, waiting{"the provider lacks the snapshot " + s.id, ""})
		}
		delete(have, s.id)
	}
	for id := range have {
		if p.doubts > 0 {
			p.doubts--
			p.snaps = append(p.snaps, &snapshot{id: id})
			continue
		}
		out = append(out, waiting{"the provider has the snapshot " + id + ", which nobody wants", ""})
	}
	return out
}

// lookAtNode compares what the kernel and the data_dir have with what the servers say.
func (p *play) lookAtNode(ctx context.Context, users map[string][]string, shims int) (out []waiting, err error) {
	want := map[string]int{"csi/*/p/*.id": 0, "csi/*/s/*.id": 0, "shim/*.sock": shims}
	for _, allocs := range users {
		want["csi/*/p/*.id"] += len(allocs)
		want["csi/*/s/*.id"]++
	}
	for pattern, n := range want {
		found, err := p.m.list(pattern)
		if err != nil {
			return nil, err
		}
		if len(found) != n {
			out = append(out, waiting{fmt.Sprintf("%d of %s, not %d: %v", len(found), pattern, n, found), ""})
		}
	}
	loops, err := p.m.loops()
	if err != nil {
		return nil, err
	}
	if len(loops) != len(users) {
		what := fmt.Sprintf("%d loop devices for %d volumes in use: %v", len(loops), len(users), loops)
		out = append(out, waiting{what, ""})
	}
	nodes, _, err := p.m.api.Nodes().List(ctx, nil)
	if err != nil {
		return append(out, waiting{"the node", err.Error()}), nil
	}
	for _, n := range nodes {
		if n.Orphans > 0 {
			out = append(out, waiting{fmt.Sprintf("the node has %d orphans", n.Orphans), ""})
		}
	}
	return out, nil
}
