package node

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/base/reconcile"
	"berth/internal/client/csimanager"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
	"berth/internal/port/hostfs"
	"berth/internal/port/kv"
	"berth/internal/wire"
)

// Config wires a keeper.
type Config struct {
	Store *kv.Store
	Codec kv.Codec
	Boot  string // kernel boot id
	// DataDir is searched for stagings and publications of which the store knows nothing; empty: nothing is searched.
	DataDir   string
	Plugins   csimanager.Plugins
	Processes csimanager.ProcessGate
	Armed     csimanager.ArmedGate
	// Known reports whether the client still runs or restores the alloc; a want of an unknown alloc is withdrawn once
	// the node is armed.
	Known func(ids.Alloc) bool
	// Lost is told when a publication under a living alloc is found dead: the tasks that use the volume block of this
	// alias must restart by their policy. It must not wait, nor call the keeper. nil: nobody is told.
	Lost func(alloc ids.Alloc, alias, reason string)
	// Unreported is for nodes without servers: what is made needs nobody's notice.
	Unreported bool
	Parallel   int // volumes worked on at once; 0: 16
	Log        *slog.Logger
}

// Keeper makes, verifies and undoes stagings and publications. It never gives up and can say what it waits for.
type Keeper struct {
	cfg     Config
	loop    *reconcile.Loop[volume.StagingKey]
	changed lifecycle.Signal
	mu      sync.Mutex
	vols    map[volume.StagingKey]*lane
	tell    bool // the servers wait for a word, though no entry may have changed
}

var _ csimanager.VolumeMounter = (*Keeper)(nil)

// New returns a keeper with the entries of the store loaded: what another boot made is Uncertain, what this boot made is
// verified in the mount table. A damaged record is kept; what it was about is found again by the id files.
func New(cfg Config) (*Keeper, error) {
	if cfg.Parallel == 0 {
		cfg.Parallel = 16
	}
	k := &Keeper{cfg: cfg, vols: map[volume.StagingKey]*lane{}}
	k.loop = reconcile.New(reconcile.Config{Name: "node volumes", Parallel: cfg.Parallel}, k.work)
	if err := k.load(); err != nil {
		return nil, err
	}
	if err := k.adoptStrangers(); err != nil {
		return nil, err
	}
	return k, k.verify()
}

// Run turns the keeper until ctx ends. Calls under way are abandoned as Uncertain; the next life repeats them.
func (k *Keeper) Run(ctx context.Context) error {
	return lifecycle.RunAll(ctx, map[string]func(context.Context) error{
		"volumes": k.loop.Run,
		"gates":   k.watchGates,
		"mounts":  func(ctx context.Context) error { return hostfs.WatchTable(ctx, k.Verify) },
	})
}

// watchGates marks every entry when something that the flow depends on changed. Pauses after failures are the lanes': a
// mark does not cut them short, another life of the plugin does.
func (k *Keeper) watchGates(ctx context.Context) error {
	lives := map[ids.Plugin]*csi.Client{}
	for {
		plugins, processes, armed := k.cfg.Plugins.Changed(), k.cfg.Processes.Changed(), k.cfg.Armed.Changed()
		k.withdrawUnknown()
		if k.newLives(lives) {
			k.Verify()
		}
		k.markAll()
		select {
		case <-ctx.Done():
			return nil
		case <-plugins:
		case <-processes:
		case <-armed:
		}
	}
}

// newLives compares the plugins' connections with those seen last and lets the volumes of a plugin that came back, or
// went, be tried at once. It tells whether there was any.
func (k *Keeper) newLives(lives map[ids.Plugin]*csi.Client) (found bool) {
	k.mu.Lock()
	plugins := map[ids.Plugin]*csi.Client{}
	for key := range k.vols {
		plugins[key.Plugin] = nil
	}
	k.mu.Unlock()
	for id := range plugins {
		if conn, err := k.cfg.Plugins.Use(id, plugin.RoleNode); err == nil {
			plugins[id] = conn.Client
			conn.Release()
		}
		was, seen := lives[id]
		if seen && was == plugins[id] {
			continue
		}
		lives[id], found = plugins[id], true
		k.retryAll(id)
	}
	return found
}

func (k *Keeper) retryAll(id ids.Plugin) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for key, l := range k.vols {
		if key.Plugin != id {
			continue
		}
		soon := time.Now().Add(newLifePause)
		for s, r := range l.retries {
			if r.next.After(soon) {
				r.next = soon
				l.retries[s] = r
			}
		}
		l.expandRefused = nil
	}
}

func (k *Keeper) markAll() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for key, l := range k.vols {
		if !l.entry.quiet() || l.dirty {
			k.loop.Mark(key)
		}
	}
}

// withdrawUnknown drops the wants of allocs that nobody runs any more (their state was lost, or they were purged).
func (k *Keeper) withdrawUnknown() {
	if !k.cfg.Armed.Armed() {
		return
	}
	for _, key := range k.wants() {
		if k.cfg.Known(key.Alloc) {
			continue
		}
		k.cfg.Log.Warn("withdrawing the want of an allocation that is not here", logkey.Alloc, key.Alloc, logkey.Volume, key.ExternalID)
		k.mu.Lock()
		if l := k.vols[key.StagingKey]; l != nil {
			l.withdraw(key.Alloc)
		}
		k.mu.Unlock()
	}
}

func (k *Keeper) wants() []volume.PublicationKey {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []volume.PublicationKey
	for key, l := range k.vols {
		for id, p := range l.entry.Pubs {
			if p.Wanted {
				out = append(out, volume.PublicationKey{StagingKey: key, Alloc: id})
			}
		}
	}
	return out
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
	if err := l.want(g); err != nil {
		return err
	}
	k.changed.Notify() // the reporter tells the servers
	return nil
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
	if l := k.vols[key.StagingKey]; l != nil {
		l.withdraw(key.Alloc)
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
	if gone && free && !l.dirty {
		return true, "" // and it is on disk
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

// Released implements csimanager.VolumeMounter.
func (k *Keeper) Released(ids.Alloc) {
	k.mu.Lock()
	k.tell = true
	k.mu.Unlock()
	k.changed.Notify()
}
