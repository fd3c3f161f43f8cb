package node

import (
	"context"
	"log/slog"
	"sync"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/base/reconcile"
	"berth/internal/client/csimanager"
	"berth/internal/model/volume"
	"berth/internal/port/kv"
	"berth/internal/wire"
)

// Config wires a keeper.
type Config struct {
	Store     *kv.Store
	Codec     kv.Codec
	Boot      string // kernel boot id
	Plugins   csimanager.Plugins
	Processes csimanager.ProcessGate
	Armed     csimanager.ArmedGate
	// Known reports whether the client still runs or restores the alloc; a want of an unknown alloc is withdrawn once
	// the node is armed.
	Known    func(ids.Alloc) bool
	Parallel int // volumes worked on at once; 0: 16
	Log      *slog.Logger
}

// Keeper makes, verifies and undoes stagings and publications. It never gives up and can say what it waits for.
type Keeper struct {
	cfg     Config
	loop    *reconcile.Loop[volume.StagingKey]
	changed lifecycle.Signal
	mu      sync.Mutex
	vols    map[volume.StagingKey]*lane
}

// lane is an entry with what lives in memory only.
type lane struct {
	entry         *Entry
	dirty         bool // entry differs from the store
	reported      bool // the servers have the present state
	grants        map[ids.Alloc]wire.Grant
	refused       map[ids.Alloc]error
	stageRefused  error
	expandRefused error
	status        string // what it does or waits for
	lastErr       error
	call          sync.Mutex // held during every node call of the volume: one in flight per (plugin, volume, node)
}

// New returns a keeper with the entries of the store loaded: what another boot made is Uncertain, what this boot made is
// verified in the mount table. Damaged records are named in the error and kept; the others work.
func New(cfg Config) (*Keeper, error) {
	if cfg.Parallel == 0 {
		cfg.Parallel = 16
	}
	k := &Keeper{cfg: cfg, vols: map[volume.StagingKey]*lane{}}
	k.loop = reconcile.New(reconcile.Config{Name: "node volumes", Parallel: cfg.Parallel, Log: cfg.Log}, k.work)
	if err := k.load(); err != nil {
		return nil, err
	}
	if err := k.Verify(); err != nil {
		return nil, err
	}
	return k, nil
}

// Run turns the keeper until ctx ends. Calls under way are abandoned as Uncertain; the next life repeats them.
func (k *Keeper) Run(ctx context.Context) error {
	k.markAll()
	return lifecycle.RunAll(ctx, map[string]func(context.Context) error{
		"volumes": k.loop.Run,
		"gates":   k.watchGates,
	})
}

// watchGates marks every entry when something that the flow depends on changed.
func (k *Keeper) watchGates(ctx context.Context) error {
	for {
		plugins, processes, armed := k.cfg.Plugins.Changed(), k.cfg.Processes.Changed(), k.cfg.Armed.Changed()
		k.withdrawUnknown()
		k.markAll()
		select {
		case <-ctx.Done():
			return nil
		case <-plugins:
			if err := k.Verify(); err != nil {
				k.cfg.Log.Error("the mount table cannot be read; publications are not verified", logkey.Error, err)
			}
		case <-processes:
		case <-armed:
		}
	}
}

func (k *Keeper) markAll() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for key, l := range k.vols {
		if !l.entry.quiet() {
			k.loop.Mark(key)
		}
	}
}

// withdrawUnknown drops the wants of allocs that nobody runs any more (their state was lost, or they were purged).
func (k *Keeper) withdrawUnknown() {
	if !k.cfg.Armed.Armed() {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for key, l := range k.vols {
		for id, p := range l.entry.Pubs {
			if p.Wanted && !k.cfg.Known(id) {
				k.cfg.Log.Warn("withdrawing the want of an allocation that is not here", logkey.Alloc, id, logkey.Volume, key.ExternalID)
				p.Wanted, l.dirty, l.reported = false, true, false
			}
		}
	}
}

// MountVolume implements csimanager.VolumeMounter.
func (k *Keeper) MountVolume(ctx context.Context, req csimanager.MountRequest) (csimanager.MountInfo, error) {
	if err := k.want(req.Grant); err != nil {
		return csimanager.MountInfo{}, err
	}
	k.loop.Mark(req.Grant.Key.StagingKey)
	said := ""
	for {
		ch := k.changed.C()
		info, why, err := k.look(req.Grant)
		if err != nil || why == "" {
			return info, err
		}
		if why != said && req.Progress != nil {
			req.Progress(why)
			said = why
		}
		select {
		case <-ctx.Done():
			return csimanager.MountInfo{}, fault.Wrap(ctx.Err(), fault.KindOf(ctx.Err()), "mount", describeKey(req.Grant.Key.StagingKey))
		case <-ch:
		}
	}
}

// want records that an alloc needs the volume. It becomes durable together with the first intent.
func (k *Keeper) want(g wire.Grant) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.lane(g.Key.StagingKey, g.Volume)
	args := argsOf(g)
	if l.entry.Staging.Presence.Exists() && !l.entry.Staging.Args.equal(args) {
		if err := l.adopt(g, args); err != nil {
			return err
		}
	}
	p := l.entry.Pubs[g.Key.Alloc]
	if p == nil {
		p = &Publication{}
		l.entry.Pubs[g.Key.Alloc] = p
	}
	if !p.Wanted || p.Epoch != g.Epoch || p.Alias != g.Alias || p.ReadOnly != g.ReadOnly || p.Generation != g.Generation {
		p.Wanted, p.Epoch, p.Alias, p.ReadOnly, p.Generation = true, g.Epoch, g.Alias, g.ReadOnly, g.Generation
		l.dirty, l.reported = true, false
	}
	if g.ExpandNode && g.Capacity > l.entry.Staging.ExpandTo {
		l.entry.Staging.ExpandTo, l.dirty = g.Capacity, true
	}
	l.grants[g.Key.Alloc] = g
	delete(l.refused, g.Key.Alloc)
	l.stageRefused, l.expandRefused = nil, nil
	return nil
}

// adopt decides what a want with other arguments than the present staging's means: another attachment makes the staging
// lost; another use beside a living one is refused, because the specification forbids it (NodePublishVolume).
func (l *lane) adopt(g wire.Grant, args Args) error {
	if l.entry.Staging.Args.Generation != args.Generation || !l.othersWant(g.Key.Alloc) {
		l.entry.Staging.Presence, l.dirty, l.reported = volume.Lost, true, false
		return nil
	}
	return fault.WithHint(fault.New(fault.Conflict, "mount", describeKey(g.Key.StagingKey),
		"it is in use on this node with another access mode, attachment mode or other mount options"),
		"use the same modes and mount_options in every job that shares the volume")
}

func (l *lane) othersWant(me ids.Alloc) bool {
	for id, p := range l.entry.Pubs {
		if id != me && (p.Wanted || p.Presence.Exists()) {
			return true
		}
	}
	return false
}

func argsOf(g wire.Grant) Args {
	return Args{AccessMode: g.AccessMode, AttachmentMode: g.AttachmentMode, MountOptions: g.MountOptions,
		VolumeContext: g.VolumeContext, PublishContext: g.PublishContext, Generation: g.Generation}.clone()
}

// look tells whether a want is fulfilled, what it waits for, or why it never will be.
func (k *Keeper) look(g wire.Grant) (info csimanager.MountInfo, why string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.vols[g.Key.StagingKey]
	if l == nil || l.entry.Pubs[g.Key.Alloc] == nil || !l.entry.Pubs[g.Key.Alloc].Wanted {
		return info, "", fault.New(fault.Canceled, "mount", describeKey(g.Key.StagingKey), "the want was withdrawn")
	}
	p := l.entry.Pubs[g.Key.Alloc]
	switch {
	case l.refused[g.Key.Alloc] != nil:
		return info, "", l.refused[g.Key.Alloc]
	case l.stageRefused != nil && p.Presence != volume.Present:
		return info, "", l.stageRefused
	case p.Presence == volume.Present && l.entry.Staging.Presence == volume.Present:
		return csimanager.MountInfo{Alias: g.Alias, Volume: g.Volume, Key: g.Key, Source: p.HostPath,
			Block: l.entry.Staging.Args.AttachmentMode == volume.BlockDevice, ReadOnly: g.ReadOnly || p.SeenReadOnly}, "", nil
	case l.lastErr != nil:
		return info, l.lastErr.Error(), nil
	case l.status != "":
		return info, l.status, nil
	}
	return info, "mounting the volume", nil
}

// UnmountVolume implements csimanager.VolumeMounter.
func (k *Keeper) UnmountVolume(ctx context.Context, key volume.PublicationKey) error {
	k.mu.Lock()
	if l := k.vols[key.StagingKey]; l != nil && l.entry.Pubs[key.Alloc] != nil && l.entry.Pubs[key.Alloc].Wanted {
		l.entry.Pubs[key.Alloc].Wanted, l.dirty, l.reported = false, true, false
		delete(l.grants, key.Alloc)
		delete(l.refused, key.Alloc)
		l.stageRefused = nil
	}
	k.mu.Unlock()
	k.loop.Mark(key.StagingKey)
	for {
		ch := k.changed.C()
		done, why := k.letGo(key)
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return fault.WithHint(fault.Wrap(ctx.Err(), fault.NotReady, "unmount", describeKey(key.StagingKey)), why)
		case <-ch:
		}
	}
}

// letGo reports that the publication is gone, and the staging too unless somebody else uses it.
func (k *Keeper) letGo(key volume.PublicationKey) (bool, string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.vols[key.StagingKey]
	if l == nil {
		return true, ""
	}
	p := l.entry.Pubs[key.Alloc]
	gone := p == nil || !p.Presence.Exists()
	free := !l.entry.Staging.Presence.Exists() || l.entry.published() || l.entry.wanted()
	if gone && free {
		return true, ""
	}
	if l.lastErr != nil {
		return false, l.lastErr.Error()
	}
	return false, l.status
}

// Publications implements csimanager.VolumeMounter.
func (k *Keeper) Publications(alloc ids.Alloc) []volume.PublicationKey {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []volume.PublicationKey
	for key, l := range k.vols {
		if l.entry.Pubs[alloc] != nil {
			out = append(out, volume.PublicationKey{StagingKey: key, Alloc: alloc})
		}
	}
	return out
}

// lane returns the lane of a key, new when there is none. The caller holds the lock.
func (k *Keeper) lane(key volume.StagingKey, id volume.ID) *lane {
	l := k.vols[key]
	if l == nil {
		l = newLane(&Entry{Key: key, Volume: id, Boot: k.cfg.Boot, Pubs: map[ids.Alloc]*Publication{}})
		k.vols[key] = l
	}
	if id.ID != "" && l.entry.Volume != id {
		l.entry.Volume, l.dirty = id, true
	}
	return l
}

func newLane(e *Entry) *lane {
	if e.Pubs == nil {
		e.Pubs = map[ids.Alloc]*Publication{}
	}
	return &lane{entry: e, grants: map[ids.Alloc]wire.Grant{}, refused: map[ids.Alloc]error{}}
}
