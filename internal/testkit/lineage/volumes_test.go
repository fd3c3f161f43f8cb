package lineage

import (
	"cmp"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/client/csimanager"
	"berth/internal/client/csimanager/entry"
	"berth/internal/client/csimanager/evidence"
	"berth/internal/client/localstate"
	"berth/internal/conformance/csi/proxy"
	"berth/internal/model/alloc"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
	"berth/internal/wire"
)

// vol is an entry with what the agent knows beside it.
type vol struct {
	entry  *entry.Entry
	record entry.Record
	asked  map[ids.Alloc]*wire.Grant // in this agent run
	acked  map[ids.Alloc]volume.Epoch
	wait   entry.Wait
	failed int // steps in a row
	next   time.Time
}

// reporting is how far the servers have heard.
type reporting struct {
	full, caughtUp bool
	prev, reported uint64
	mark           string
}

// base is where the plugin's things lie.
var base = csimanager.HostBase(dataDir, disk)

// load begins with what an earlier run of the agent left, and finds what it did not record.
func (a *agent) load() {
	for k, e := range a.d.store.entries {
		v := a.vol(k, e.Volume)
		v.entry, v.record = e.Clone(), entry.LoadedRecord
		if v.entry.WakeOnBoot(a.m.boot()) {
			v.record = v.record.On(entry.Changed)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(a.d.names)) {
		f := a.d.names[path]
		if f.Pub != nil {
			p := *f.Pub
			p.Wanted = true // a want of an alloc that is not here is withdrawn
			f.Pub = &p
		}
		a.add(&f)
	}
	a.look()
}

func (a *agent) vol(k volume.StagingKey, id volume.ID) *vol {
	v := a.vols[k]
	if v == nil {
		v = &vol{
			entry: &entry.Entry{
				Key:    k,
				Volume: id,
				Boot:   a.m.boot(),
				Pubs:   map[ids.Alloc]*entry.Publication{},
			},
			asked: map[ids.Alloc]*wire.Grant{},
			acked: map[ids.Alloc]volume.Epoch{},
		}
		a.vols[k] = v
	}
	return v
}

func (a *agent) keys() []volume.StagingKey {
	return slices.SortedFunc(maps.Keys(a.vols), volume.StagingKey.Compare)
}

// add takes over what an id file, or a claim, names.
func (a *agent) add(f *evidence.IDFile) {
	v := a.vol(f.Key, f.Volume)
	if f.Into(v.entry) {
		v.record = v.record.On(entry.Changed)
	}
}

// look compares the mount table with the entries: what is gone is lost, and what no entry knows is unknown.
func (a *agent) look() {
	known := map[string]bool{}
	for _, k := range a.keys() {
		v := a.vols[k]
		st := &v.entry.Staging
		known[st.HostPath] = true
		if st.Presence == volume.Present && !a.m.mounted(st.HostPath) {
			st.Presence = volume.Lost
			v.record = v.record.On(entry.Changed)
		}
		for _, id := range v.entry.Allocs() {
			p := v.entry.Pubs[id]
			known[p.HostPath] = true
			if p.Presence == volume.Present && !a.m.mounted(p.HostPath) {
				p.Presence = volume.Lost
				v.record = v.record.On(entry.Changed)
			}
		}
	}
	a.unknown = evidence.UnknownMounts(dataDir, known, a.m.table(), nil)
}

// grow takes over which volumes are to be larger; of one that is not staged nobody asks it.
func (a *agent) grow() {
	for k, bytes := range a.m.wished() {
		if v := a.vols[k]; v != nil && v.entry.Staging.Presence.Exists() && bytes > v.entry.Staging.ExpandTo {
			v.entry.Staging.ExpandTo = bytes
			v.record = v.record.On(entry.Changed)
		}
	}
}

// work makes one pass over allocs and volumes, and reports whether anything moved.
func (a *agent) work() (moved bool) {
	a.grow()
	for _, id := range a.allocs() {
		moved = a.bring(id, a.d.store.allocs[id]) || moved
	}
	for _, k := range a.keys() {
		v := a.vols[k]
		for _, id := range v.entry.Allocs() { // wants of allocs that nobody runs
			if a.armed && v.entry.Pubs[id].Wanted && a.d.store.allocs[id] == nil {
				v.withdraw(id)
				moved = true
			}
		}
		moved = a.step(k, v) || moved
	}
	if a.pressing() {
		a.send(nil)
	}
	return moved
}

// bring makes the next step of an alloc.
func (a *agent) bring(id ids.Alloc, rec *localstate.Alloc) bool {
	stopping := rec.Bundle.Alloc.ServerTerminal() || rec.Stopped != "" || rec.Refused != "" || a.stopping
	lives := a.m.procs[id] != nil
	switch {
	case rec.Released:
	case stopping && lives:
		a.m.end(id)
		return true
	case stopping, rec.Orphan != nil && !lives: // an orphan that has ended is not started again
		moved := false
		released := true
		for _, v := range a.vols {
			if p := v.entry.Pubs[id]; p != nil && p.Wanted {
				v.withdraw(id)
				moved = true
			}
			p := v.entry.Pubs[id]
			gone := p == nil || !p.Presence.Exists()
			mine := p != nil || v.entry.Volume == volumeOf(rec.Bundle)
			free := !v.entry.Staging.Presence.Exists() || v.entry.Published() || v.entry.Wanted()
			released = released && (!mine || gone && free)
		}
		rec.Released = released
		return moved || released
	case lives, rec.Orphan != nil:
	default:
		return a.up(id, rec)
	}
	return false
}

// volumeOf is the volume that the alloc of this test uses.
func volumeOf(b alloc.Bundle) volume.ID {
	r := b.Job.Group(b.Alloc.TaskGroup).CSIVolumes()[0]
	return volume.ID{Namespace: b.Alloc.Namespace, ID: r.SourceFor(b.Alloc.Index)}
}

// up brings an alloc towards its running task: permission, want, mount, start.
func (a *agent) up(id ids.Alloc, rec *localstate.Alloc) bool {
	for _, k := range a.keys() {
		v := a.vols[k]
		if p := v.entry.Pubs[id]; p != nil && v.asked[id] != nil && p.Wanted {
			if p.Presence == volume.Present && v.entry.Staging.Presence == volume.Present {
				a.m.start(rec.Bundle, p.HostPath, k.ExternalID)
				return true
			}
			return false // the volume is on its way
		}
	}
	begun := time.Now()
	reply, err := wire.NodeGrants.Call(a.w.ctx(), a.conn(),
		&wire.GrantsRequest{NodeIdentity: a.who, Alloc: id})
	switch {
	case fault.Has(err, fault.Conflict) && !wire.SessionRefused(err), fault.Has(err, fault.NotFound):
		rec.Refused = err.Error()
		return true
	case err != nil:
		a.waits[id] = err.Error()
		return false
	case !reply.Ready:
		a.waits[id] = reply.Waiting[0].Reason
		return false
	case reply.Session != a.who.Session, a.patience > 0 && time.Since(begun) > a.patience/2:
		a.waits[id] = "the servers' permission came late"
		return false
	}
	a.obeyed("request")
	delete(a.waits, id)
	for i := range reply.Grants {
		if !a.want(&reply.Grants[i]) {
			return false
		}
	}
	return true
}

// want writes the want of a permission into the entry.
func (a *agent) want(g *wire.Grant) bool {
	v := a.vol(g.Key.StagingKey, g.Volume)
	switch v.entry.Fit(g.Key.Alloc, argsOf(g)) {
	case entry.Fits, entry.FitsBeside:
	case entry.Clashes:
		a.waits[g.Key.Alloc] = "another use of the volume is in the way"
		return false
	case entry.Remade:
		v.entry.Staging.Presence = volume.Lost
	}
	p := v.entry.Pubs[g.Key.Alloc]
	if p == nil {
		p = &entry.Publication{HostPath: filepath.Join(base, evidence.TargetTail(g.Key.ExternalID, g.Key.Alloc))}
		p.TaskPath = p.HostPath
		v.entry.Pubs[g.Key.Alloc] = p
	}
	p.Wanted = true
	p.Epoch = g.Epoch
	p.Alias = g.Alias
	p.ReadOnly = g.ReadOnly
	p.Generation, p.Received = g.Generation, g.At
	if g.ExpandNode && g.Capacity > v.entry.Staging.ExpandTo {
		v.entry.Staging.ExpandTo = g.Capacity
	}
	v.asked[g.Key.Alloc] = g
	v.record = v.record.On(entry.Changed)
	return true
}

// argsOf are the arguments of the calls for a permission.
func argsOf(g *wire.Grant) entry.Args {
	return entry.Args{
		AccessMode:     g.AccessMode,
		AttachmentMode: g.AttachmentMode,
		MountOptions:   g.MountOptions,
		VolumeContext:  g.VolumeContext,
		PublishContext: g.PublishContext,
		Generation:     g.Generation,
	}.Clone()
}

func (v *vol) withdraw(id ids.Alloc) {
	delete(v.asked, id)
	delete(v.acked, id)
	if p := v.entry.Pubs[id]; p != nil && p.Wanted {
		p.Wanted = false
		v.record = v.record.On(entry.Changed)
	}
}

// step makes the next step of a volume: intent on disk, call, verification, result.
func (a *agent) step(k volume.StagingKey, v *vol) bool {
	steps, wait := entry.Next(v.entry, a.facts(k, v))
	v.wait = wait
	if len(steps) == 0 || time.Now().Before(v.next) {
		return a.settle(k, v)
	}
	s := steps[0]
	if s.Verb == entry.Stage { // the arguments are those of the newest permission
		g := v.asked[v.entry.Requester(a.facts(k, v))]
		v.entry.Staging.Args, v.entry.Staging.Guessed = argsOf(g), false
		v.entry.Staging.HostPath = filepath.Join(base, volume.StagingTail(k.ExternalID))
		v.entry.Staging.TaskPath = v.entry.Staging.HostPath
	}
	before := entry.Intend(v.entry, s)
	a.save(k, v)
	if s.Making() {
		f := evidence.NameOf(v.entry, s.Alloc)
		a.d.names[nameOf(v.entry, s)] = f
	}
	o := a.call(k, v, s)
	entry.Conclude(v.entry, s, before, o)
	if v.failed++; o == entry.Worked {
		v.failed = 0
	} else {
		pause := time.Second << min(v.failed, 6)
		v.next = time.Now().Add(pause + mathrand.N(pause/2))
	}
	switch {
	case s.Verb == entry.Unstage && v.entry.Staging.Presence == volume.Absent:
		v.entry.Unstaged()
	case s.Verb == entry.Expand && o == entry.Worked:
		v.entry.Staging.ExpandedTo = v.entry.Staging.ExpandTo
	}
	if at := v.entry.PresenceOf(s); at != nil && !s.Making() && *at == volume.Absent {
		delete(a.d.names, nameOf(v.entry, s))
	}
	v.record = v.record.On(entry.Changed)
	a.save(k, v)
	return true
}

func nameOf(e *entry.Entry, s entry.Step) string {
	if s.Verb == entry.Publish || s.Verb == entry.Unpublish {
		return filepath.Dir(e.Pubs[s.Alloc].HostPath) + ".id"
	}
	return e.Staging.HostPath + ".id"
}

// facts is what the world says of a volume.
func (a *agent) facts(k volume.StagingKey, v *vol) entry.Facts {
	f := entry.Facts{
		Armed:        a.armed,
		Gone:         map[ids.Alloc]bool{},
		Idle:         map[ids.Alloc]bool{},
		Orphans:      map[ids.Alloc]bool{},
		Requested:    map[ids.Alloc]bool{},
		Acknowledged: map[ids.Alloc]bool{},
		Unknown: slices.ContainsFunc(a.unknown, func(u volume.UnknownMount) bool {
			return u.Of(k.Plugin) && strings.Contains(u.Path, "/p/")
		}),
	}
	unrecorded := a.unrecorded()
	for _, id := range v.entry.Allocs() {
		rec, lives := a.d.store.allocs[id], a.m.procs[id] != nil
		switch {
		case rec != nil:
			stopping := rec.Bundle.Alloc.ServerTerminal() || rec.Stopped != "" || rec.Refused != "" ||
				rec.Orphan != nil || a.stopping
			f.Gone[id] = !lives && (stopping || rec.Released)
			f.Idle[id] = !lives
			f.Orphans[id] = rec.Orphan != nil && !rec.Released
		default:
			f.Gone[id] = !lives && !a.d.tasks[id]
			f.Orphans[id] = slices.Contains(unrecorded, id)
		}
		epoch, acked := v.acked[id]
		f.Requested[id] = v.asked[id] != nil
		f.Acknowledged[id] = acked && epoch == v.entry.Pubs[id].Epoch
	}
	return f
}

// call makes the call of a step and holds its answer against the mount table.
func (a *agent) call(k volume.StagingKey, v *vol, s entry.Step) entry.Outcome {
	e := proxy.Entry{
		Volume:  k.ExternalID,
		Node:    a.m.name,
		Staging: v.entry.Staging.HostPath, // which the plugin sees as the agent does
		Mode:    mode(v.entry.Staging.Args.AccessMode),
	}
	path := v.entry.Staging.HostPath
	if s.Alloc != "" {
		e.Target = v.entry.Pubs[s.Alloc].HostPath // which the plugin sees as the agent does
		path = v.entry.Pubs[s.Alloc].HostPath
	}
	rpc := map[entry.Verb]csi.RPC{
		entry.Stage:     csi.NodeStageVolume,
		entry.Publish:   csi.NodePublishVolume,
		entry.Unpublish: csi.NodeUnpublishVolume,
		entry.Unstage:   csi.NodeUnstageVolume,
		entry.Expand:    csi.NodeExpandVolume,
	}[s.Verb]
	e.RPC = string(rpc)
	switch {
	case s.Making():
		e.Hash = cmp.Or(v.entry.Staging.Args.PublishContext["device"], "none")
	case s.Verb == entry.Expand:
		e.Hash = fmt.Sprint(v.entry.Staging.ExpandTo)
		e.Target = path
	default:
		e.Mode = ""
	}
	code := a.w.provider.call(a.m, e, func() (any, codes.Code) {
		switch {
		case s.Verb == entry.Expand:
			return nil, a.w.provider.grow(a.m, k.ExternalID, path, v.entry.Staging.ExpandTo)
		case !s.Making():
			a.m.unmount(path)
			return nil, codes.OK
		case !a.w.provider.attached(k.ExternalID, a.m):
			return nil, codes.Unavailable
		}
		a.w.provider.format(k.ExternalID)
		a.m.mount(path, k.ExternalID)
		return nil, codes.OK
	})
	switch {
	case code != codes.OK:
		return entry.Unknown
	case s.Verb == entry.Expand, a.m.mounted(path) == s.Making():
		return entry.Worked
	}
	return entry.Missing
}

// save writes an entry to disk.
func (a *agent) save(k volume.StagingKey, v *vol) {
	a.d.store.entries[k] = v.entry.Clone()
	v.record = v.record.On(entry.Writing).On(entry.Written)
}

// settle does with an entry that has no step what its record demands, and reports whether it is gone by that.
func (a *agent) settle(k volume.StagingKey, v *vol) bool {
	for _, id := range v.entry.Allocs() {
		if p := v.entry.Pubs[id]; !p.Wanted && !p.Presence.Exists() {
			delete(v.entry.Pubs, id)
			v.record = v.record.On(entry.Changed)
		}
	}
	for {
		switch v.record.Fate(v.entry.Quiet()) {
		case entry.Keep:
			return false
		case entry.Save:
			a.save(k, v)
		case entry.Erase:
			delete(a.d.store.entries, k)
			v.record = v.record.On(entry.Erased)
		case entry.Forget:
			delete(a.vols, k)
			return true
		}
	}
}

// pressing reports whether an alloc waits until the servers have heard of its want.
func (a *agent) pressing() bool {
	for _, v := range a.vols {
		for id, p := range v.entry.Pubs {
			known, acked := v.acked[id]
			if p.Wanted && v.record.Servers != entry.Current && (!acked || known != p.Epoch) {
				return true
			}
		}
	}
	return false
}

// send reports what the servers do not know: allocs, and the inventory as far as it is due.
func (a *agent) send(news []*alloc.Alloc) {
	out := a.inventory()
	if len(news) == 0 && out == nil {
		return
	}
	var reply *wire.InventoryReply
	var err error
	if len(news) > 0 {
		var r *wire.NodeUpdateReply
		r, err = wire.NodeUpdate.Call(a.w.ctx(), a.conn(),
			&wire.NodeUpdateRequest{NodeIdentity: a.who, Allocs: news, Inventory: out})
		if err == nil {
			reply = r.Inventory
			for _, n := range news {
				a.reported[n.ID] = n.ClientStatus
			}
		}
	} else {
		reply, err = wire.NodeInventory.Call(a.w.ctx(), a.conn(), out)
	}
	if err != nil {
		a.report.full = true
		return
	}
	a.obeyed("report")
	if out == nil {
		return
	}
	if reply == nil || reply.Stale {
		a.report.full = true
		if reply != nil {
			a.report.prev = reply.Head
			a.send(nil)
		}
		return
	}
	a.report.prev = reply.Head
	a.report.reported = out.At.Index
	a.report.full = false
	a.answered(out.Entries, reply)
}

// inventory is the report that is due; nil: none is.
func (a *agent) inventory() *wire.InventoryReport {
	r := &a.report
	at := a.d.store.seen
	if at.Mark != r.mark {
		r.full, r.mark = true, at.Mark
	}
	silence := r.caughtUp && at.Index > r.reported
	r.caughtUp = false
	var entries []volume.InventoryEntry
	for _, k := range a.keys() {
		v := a.vols[k]
		if v.record.Named(r.full, v.entry.Quiet()) {
			entries = append(entries, reportOf(v.entry))
			v.record = v.record.On(entry.Reporting)
		}
	}
	if !r.full && !silence && len(entries) == 0 {
		return nil
	}
	return &wire.InventoryReport{
		NodeIdentity: a.who,
		Full:         r.full,
		At:           at,
		Prev:         r.prev,
		Entries:      entries,
		Unknown:      a.unknown,
	}
}

// reportOf is an entry as the servers see it.
func reportOf(e *entry.Entry) volume.InventoryEntry {
	out := volume.InventoryEntry{
		StagingKey: e.Key,
		Volume:     e.Volume,
		Staging:    e.Staging.Presence,
		Generation: e.Staging.Args.Generation,
		ExpandedTo: e.Staging.ExpandedTo,
	}
	for _, id := range e.Allocs() {
		p := e.Pubs[id]
		out.Publications = append(out.Publications, volume.InventoryPublication{
			Alloc:    id,
			Epoch:    p.Epoch,
			Presence: p.Presence,
			Wanted:   p.Wanted,
			Path:     p.HostPath,
			ReadOnly: p.ReadOnly,
			Received: p.Received,
		})
	}
	return out
}

// answered takes the servers' answer: what is named is known, what was quiet may go, what is void is withdrawn.
func (a *agent) answered(entries []volume.InventoryEntry, reply *wire.InventoryReply) {
	for i := range reply.Claims {
		if f := evidence.Named(dataDir, &reply.Claims[i], a.unknown); f != nil {
			a.add(f)
		}
	}
	a.look()
	for i := range entries {
		k := entries[i].StagingKey
		v := a.vols[k]
		if slices.Contains(reply.Acked, k) {
			v.record = v.record.On(entry.Dropped)
			continue
		}
		v.record = v.record.On(entry.Answered)
		for _, p := range entries[i].Publications {
			own := v.entry.Pubs[p.Alloc]
			if own == nil || !own.Wanted || !p.Wanted || own.Epoch != p.Epoch {
				continue
			}
			void := wire.VoidClaim{
				PublicationKey: volume.PublicationKey{StagingKey: k, Alloc: p.Alloc},
				Epoch:          p.Epoch,
			}
			if slices.Contains(reply.Void, void) {
				v.withdraw(p.Alloc)
			} else {
				v.acked[p.Alloc] = p.Epoch
			}
		}
	}
}

// robbed finds orphans whose tasks run and whose volume is not wanted any more: it was given away.
func (a *agent) robbed() (out []string) {
	for _, k := range a.keys() {
		e := a.vols[k].entry
		for _, id := range e.Allocs() {
			rec := a.d.store.allocs[id]
			if rec != nil && rec.Orphan != nil && a.m.procs[id] != nil && !e.Pubs[id].Wanted &&
				!rec.Bundle.Alloc.ServerTerminal() && rec.Stopped == "" {
				out = append(out, fmt.Sprintf("orphan %s on %s runs, and gives %s up", ids.Short(id), a.m.name,
					k.ExternalID))
			}
		}
	}
	return out
}

// held is what the node has of volumes for an alloc.
func (a *agent) held(id ids.Alloc) (out []wire.HeldVolume) {
	for _, k := range a.keys() {
		e := a.vols[k].entry
		if p := e.Pubs[id]; p != nil && (p.Wanted || p.Presence.Exists()) {
			out = append(out, wire.HeldVolume{
				StagingKey:     k,
				Volume:         e.Volume,
				Alias:          p.Alias,
				Epoch:          p.Epoch,
				ReadOnly:       p.ReadOnly,
				Generation:     e.Staging.Args.Generation,
				AccessMode:     e.Staging.Args.AccessMode,
				AttachmentMode: e.Staging.Args.AttachmentMode,
				MountOptions:   e.Staging.Args.MountOptions,
				VolumeContext:  e.Staging.Args.VolumeContext,
				PublishContext: e.Staging.Args.PublishContext,
			})
		}
	}
	return out
}
