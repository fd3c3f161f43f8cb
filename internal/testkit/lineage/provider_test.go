package lineage

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/conformance/csi/oracle"
	"berth/internal/conformance/csi/proxy"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
	"berth/internal/wire"
)

// disk is the one plugin.
const disk ids.Plugin = "disk"

// provider is the storage behind the plugins, and the record of all that it was asked.
type provider struct {
	w *world

	mu      sync.Mutex
	last    time.Time
	calls   int
	made    int
	again   []string           // external ids that are given once more
	volumes map[string]*stored // by external id
	cuts    map[string]*cut    // snapshots, by external id
	record  []proxy.Entry
	// loses reports whether the answer of a call is lost, whose effect was made; nil: of none.
	loses func(proxy.Entry) bool
}

// stored is a volume at the provider.
type stored struct {
	name     string
	size     int64
	fs       int64           // size of its file system; 0: it has none yet
	attached map[string]bool // by machine
}

// cut is a snapshot at the provider. It is ready to use when it is asked for again.
type cut struct {
	name, of string
	size     int64
	ready    bool
}

func newProvider(w *world) *provider {
	return &provider{w: w, volumes: map[string]*stored{}, cuts: map[string]*cut{}}
}

// at is the next instant: whatever is recorded has an order, though the clock of the bubble stands still.
func (p *provider) at() time.Time {
	p.last = p.last.Add(time.Microsecond)
	if now := time.Now(); now.After(p.last) {
		p.last = now
	}
	return p.last
}

// instant is the next one.
func (p *provider) instant() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at()
}

// mark adds a fact to the record.
func (p *provider) mark(m proxy.Mark, e proxy.Entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.Kind = proxy.Marked
	e.Mark = m
	e.Time = p.at()
	p.record = append(p.record, e)
}

// call records a call, from its begin to its end; effect is made between, and answers.
func (p *provider) call(m *machine, e proxy.Entry, effect func() (any, codes.Code)) codes.Code {
	seen := p.w.witness(e) // reads the state: not under the lock
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	e.Proxy = m.name
	e.Run = m.plugins
	e.Plugin = string(disk)
	e.Call = fmt.Sprint(p.calls)
	e.Kind = proxy.CallBegins
	e.Time = p.at()
	e.Seen = seen
	e.Reached = true
	p.record = append(p.record, e)
	answer, code := effect()
	if p.loses != nil && p.loses(e) {
		answer, code = nil, codes.DeadlineExceeded
	}
	e.Kind = proxy.CallEnds
	e.Time = p.at()
	e.Seen = nil
	e.Code = code.String()
	if answer != nil {
		data, err := json.Marshal(answer)
		if err != nil {
			panic(err) // plain data
		}
		e.Answer = data
	}
	p.record = append(p.record, e)
	return code
}

// pluginStarts records that a machine runs the plugin, and what it advertises.
func (p *provider) pluginStarts(m *machine) {
	m.plugins++
	p.mu.Lock()
	p.record = append(p.record, proxy.Entry{
		Time:   p.at(),
		Kind:   proxy.PluginStarts,
		Proxy:  m.name,
		Run:    m.plugins,
		Plugin: string(disk),
	})
	p.mu.Unlock()
	type one = map[string]any
	advertise := func(rpc csi.RPC, kind string, names ...string) {
		var list []one
		for _, n := range names {
			list = append(list, one{kind: one{"type": n}})
		}
		p.call(m, proxy.Entry{RPC: string(rpc), Node: m.name}, func() (any, codes.Code) {
			return one{"capabilities": list}, codes.OK
		})
	}
	advertise(csi.GetPluginCapabilities, "service", "CONTROLLER_SERVICE")
	advertise(csi.ControllerGetCapabilities, "rpc", "CREATE_DELETE_VOLUME", "PUBLISH_UNPUBLISH_VOLUME",
		"EXPAND_VOLUME", "CREATE_DELETE_SNAPSHOT")
	advertise(csi.NodeGetCapabilities, "rpc", "STAGE_UNSTAGE_VOLUME", "EXPAND_VOLUME")
}

// control makes a controller call on a machine.
func (p *provider) control(m *machine, c *wire.ControllerCall) *wire.ControllerResult {
	r := &wire.ControllerResult{Kind: c.Kind, Subject: c.Subject, Generation: c.Generation}
	if c.Kind == wire.CallNodeExpand {
		m.wish(volume.StagingKey{Plugin: disk, ExternalID: c.Volume.ExternalID}, c.Volume.Min)
		return r
	}
	e := proxy.Entry{Volume: c.ExternalID()}
	if c.Attach != nil {
		e.Node = c.Attach.StorageNode
		e.Mode = mode(c.Attach.AccessMode)
		e.Hash = fmt.Sprint(c.Attach.AccessMode, c.Attach.ReadOnly, c.Attach.VolumeContext)
	}
	var effect func() (any, codes.Code)
	switch c.Kind {
	case wire.CallCreate:
		e.RPC, e.Volume = string(csi.CreateVolume), c.Create.Name
		effect = func() (any, codes.Code) {
			id := p.create(c.Create.Name, c.Create.Spec.CapacityMin)
			r.Created = &wire.CreatedVolume{ExternalID: id, Capacity: p.volumes[id].size}
			return map[string]any{"volume": map[string]any{"volume_id": id}}, codes.OK
		}
	case wire.CallDelete:
		e.RPC = string(csi.DeleteVolume)
		effect = func() (any, codes.Code) { delete(p.volumes, e.Volume); return nil, codes.OK }
	case wire.CallAttach:
		e.RPC = string(csi.ControllerPublishVolume)
		effect = func() (any, codes.Code) {
			v := p.volumes[e.Volume]
			if v == nil {
				return nil, codes.NotFound
			}
			v.attached[e.Node] = true
			r.PublishContext = map[string]string{"device": e.Volume + " on " + e.Node}
			return nil, codes.OK
		}
	case wire.CallDetach:
		e.RPC = string(csi.ControllerUnpublishVolume)
		effect = func() (any, codes.Code) {
			if v := p.volumes[e.Volume]; v != nil {
				delete(v.attached, e.Node)
			}
			return nil, codes.OK
		}
	case wire.CallExpand:
		e.RPC = string(csi.ControllerExpandVolume)
		e.Hash = fmt.Sprint(c.Volume.Min)
		effect = func() (any, codes.Code) { return p.expand(c.Volume, r) }
	case wire.CallSnapshot:
		e.RPC, e.Object = string(csi.CreateSnapshot), c.Snapshot.Name
		e.Hash = c.Snapshot.SourceID
		effect = func() (any, codes.Code) { return p.snapshot(c.Snapshot, r) }
	case wire.CallDeleteSnapshot:
		e.RPC, e.Object = string(csi.DeleteSnapshot), c.Snapshot.SnapshotID
		e.Volume = ""
		effect = func() (any, codes.Code) { delete(p.cuts, e.Object); return nil, codes.OK }
	default:
		p.w.t.Errorf("nobody asked for %s", c.Kind)
		r.Unsent = true
		return r
	}
	if code := p.call(m, e, effect); code != codes.OK {
		final, retry, hint := csi.Explain(csi.RPC(e.RPC), code)
		r.Err = &wire.CallError{
			Kind:      uint8(fault.FromGRPC(fault.Code(code))),
			Code:      uint32(code),
			Uncertain: final == csi.Unknown,
			Retry:     retry,
			Message:   code.String(),
			Hint:      hint,
		}
		r.Created, r.PublishContext = nil, nil
		r.Snapshot = nil
		r.Capacity, r.NodeExpansion = 0, false
	}
	return r
}

// create makes a volume, or answers with the one of that name. The caller holds the lock.
func (p *provider) create(name string, size int64) string {
	for id, v := range p.volumes {
		if v.name == name {
			return id
		}
	}
	p.made++
	id := fmt.Sprintf("x-%d", p.made)
	if len(p.again) > 0 {
		id, p.again = p.again[0], p.again[1:]
	}
	p.volumes[id] = &stored{name: name, size: size, attached: map[string]bool{}}
	return id
}

// expand makes a volume as large as it is to be, if it is smaller. The caller holds the lock.
func (p *provider) expand(args *wire.VolumeArgs, r *wire.ControllerResult) (any, codes.Code) {
	v := p.volumes[args.ExternalID]
	if v == nil {
		return nil, codes.NotFound
	}
	v.size = max(v.size, args.Min)
	r.Capacity, r.NodeExpansion = v.size, true
	return map[string]any{"capacity_bytes": v.size, "node_expansion_required": true}, codes.OK
}

// snapshot cuts a volume, or answers with the cut of that name. The caller holds the lock.
func (p *provider) snapshot(args *wire.SnapshotArgs, r *wire.ControllerResult) (any, codes.Code) {
	id := ""
	for have, c := range p.cuts {
		if c.name == args.Name {
			id = have
			c.ready = true
		}
	}
	if id == "" {
		v := p.volumes[args.SourceID]
		if v == nil {
			return nil, codes.NotFound
		}
		p.made++
		id = fmt.Sprintf("c-%d", p.made)
		p.cuts[id] = &cut{name: args.Name, of: args.SourceID, size: v.size}
	}
	c := p.cuts[id]
	r.Snapshot = &wire.CreatedSnapshot{
		ExternalID: id,
		SourceID:   c.of,
		Size:       c.size,
		CreateTime: time.Now().UnixNano(),
		Ready:      c.ready,
	}
	return map[string]any{"snapshot": map[string]any{"snapshot_id": id, "ready_to_use": c.ready}}, codes.OK
}

// format makes a file system on a volume that has none, as large as that. The caller holds the lock.
func (p *provider) format(id string) {
	if v := p.volumes[id]; v.fs == 0 {
		v.fs = v.size
	}
}

// grow makes the file system of a volume as large as it is to be, where it is mounted. The caller holds the lock.
func (p *provider) grow(m *machine, id, path string, to int64) codes.Code {
	v := p.volumes[id]
	switch {
	case v == nil || !m.mounted(path):
		return codes.NotFound
	case to > v.size:
		return codes.OutOfRange
	}
	v.fs = max(v.fs, to)
	return codes.OK
}

// isReady reports whether a snapshot is there, and can be used.
func (p *provider) isReady(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.cuts[id]
	return c != nil && c.ready
}

// sizes are how large a volume and its file system are; 0: it is not there, or has none.
func (p *provider) sizes(id string) (size, fs int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if v := p.volumes[id]; v != nil {
		return v.size, v.fs
	}
	return 0, 0
}

// attached reports whether a volume is there, and attached to a machine.
func (p *provider) attached(id string, m *machine) bool {
	v := p.volumes[id]
	return v != nil && v.attached[m.name]
}

// isAttached reports the same to somebody who looks from outside.
func (p *provider) isAttached(id string, m *machine) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.attached(id, m)
}

// things are what the provider has.
func (p *provider) things() (out []oracle.Thing) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(p.volumes)) {
		out = append(out, oracle.Thing{ID: id, Name: p.volumes[id].name})
	}
	for _, id := range slices.Sorted(maps.Keys(p.cuts)) {
		out = append(out, oracle.Thing{ID: id, Name: p.cuts[id].name})
	}
	return out
}

// recorded is the record so far.
func (p *provider) recorded() []proxy.Entry {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.record)
}

// mode is how the specification spells an access mode.
func mode(m volume.AccessMode) string {
	return strings.ToUpper(strings.ReplaceAll(string(m), "-", "_"))
}
