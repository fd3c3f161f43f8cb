// Package node owns the stagings and publications of this node: it is the keeper that makes them, verifies them in the
// mount table and undoes them, for every CSI plugin. Its records are durable intents: Uncertain is on disk before each
// call. Only the client's composition may import it; hooks see csimanager.
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
	"berth/internal/client/csimanager/entry"
	"berth/internal/client/csimanager/holding"
	"berth/internal/client/csimanager/instance"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
	"berth/internal/port/hostfs"
	"berth/internal/port/kv"
)

// Config wires a keeper.
type Config struct {
	Store *kv.Store
	Codec kv.Codec
	Boot  string // kernel boot id
	// DataDir is searched for stagings and publications of which the store knows nothing; empty: nothing is searched.
	DataDir   string
	Plugins   instance.Plugins
	Processes csimanager.ProcessGate
	Armed     csimanager.ArmedGate
	Allocs    csimanager.Allocs
	// Unmount takes away one mount, in a process that can be killed; nil: the node unmounts nothing itself.
	Unmount func(ctx context.Context, m entry.Mount) error
	// Dead says why the file system that an alloc's publication shows is dead; empty: it is not; nil: it is not asked.
	Dead     func(ctx context.Context, e *entry.Entry, alloc ids.Alloc) (why string, err error)
	Holding  *holding.Search
	Parallel int // volumes worked on at once of a plugin whose job does not say it; 0: 16
	Log      *slog.Logger
}

// Keeper makes, verifies and undoes stagings and publications. It never gives up and can say what it waits for.
type Keeper struct {
	cfg     Config
	loop    *reconcile.Loop[volume.StagingKey]
	changed lifecycle.Signal
	mu      sync.Mutex
	vols    map[volume.StagingKey]*volumeState
	unknown []volume.UnknownMount
	broken  []string            // id files that cannot be read
	damaged []volume.StagingKey // of records that cannot be read: what they were about may be mounted without a name
	victims []victim            // that are to be reported
	// readingEnds is how long a reading that was cut off may still be at it in its plugin, which does not say that it
	// has stopped.
	readingEnds time.Duration
	due         bool // the servers wait for a report, though no entry may have changed
}

var _ csimanager.VolumeMounter = (*Keeper)(nil)

// New returns a keeper with the entries of the store loaded: what another boot made is Uncertain, what this boot made
// is verified in the mount table. A damaged record is kept; what it was about is found again by the id files.
func New(cfg Config) (*Keeper, error) {
	if cfg.Parallel == 0 {
		cfg.Parallel = 16
	}
	k := &Keeper{cfg: cfg, vols: map[volume.StagingKey]*volumeState{}, readingEnds: 30 * time.Second}
	k.loop = reconcile.New(reconcile.Config{Name: "node volumes", Parallel: cfg.Parallel}, k.work).
		GroupBy(func(key volume.StagingKey) string { return string(key.Plugin) }).
		ParallelBy(func(id string) int { return cfg.Plugins.AtOnce(ids.Plugin(id), plugin.RoleNode) })
	if err := k.load(); err != nil {
		return nil, err
	}
	if err := k.adoptUnrecorded(); err != nil {
		return nil, err
	}
	return k, k.verify()
}

// Run turns the keeper until ctx ends. Calls under way are abandoned as Uncertain; they are repeated after a restart.
func (k *Keeper) Run(ctx context.Context) error {
	return lifecycle.RunAll(ctx, map[string]func(context.Context) error{
		"volumes": k.loop.Run,
		"gates":   k.watchGates,
		"mounts":  func(ctx context.Context) error { return hostfs.WatchTable(ctx, k.Verify) },
	})
}

// watchGates marks every entry when something that the flow depends on changed. Pauses after failures are the volumes':
// a mark does not cut them short, a new connection to the plugin does.
func (k *Keeper) watchGates(ctx context.Context) error {
	conns := map[ids.Plugin]*csi.Client{}
	for {
		plugins := k.cfg.Plugins.Changed()
		processes := k.cfg.Processes.Changed()
		armed := k.cfg.Armed.Changed()
		k.withdrawUnknown()
		if k.newConnections(conns) {
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

// newConnections compares the plugins' connections with those seen last and lets the volumes of a plugin that came
// back, or went, be tried at once. It reports whether there was any.
func (k *Keeper) newConnections(conns map[ids.Plugin]*csi.Client) (found bool) {
	k.mu.Lock()
	plugins := map[ids.Plugin]*csi.Client{}
	for key := range k.vols {
		plugins[key.Plugin] = nil
	}
	k.mu.Unlock()
	for id := range plugins {
		conn, err := k.cfg.Plugins.Use(id, plugin.RoleNode)
		if err == nil {
			plugins[id] = conn.Client
			conn.Release()
		}
		k.sayUnderWay(id, err)
		was, seen := conns[id]
		if seen && was == plugins[id] {
			continue
		}
		conns[id], found = plugins[id], true
		if seen { // else it is the connection that was there all along
			k.retryAll(id)
		}
	}
	return found
}

// sayUnderWay tells those who wait for a call under way how its plugin is.
func (k *Keeper) sayUnderWay(id ids.Plugin, wrong error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for key, vs := range k.vols {
		if key.Plugin != id || vs.flight.verb == "" || vs.status.text == vs.progress(id, wrong) {
			continue
		}
		vs.says(vs.progress(id, wrong), wrong != nil)
		vs.on(entry.Described)
		k.changed.Notify()
	}
}

func (k *Keeper) retryAll(id ids.Plugin) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for key, vs := range k.vols {
		if key.Plugin != id {
			continue
		}
		soon := time.Now().Add(newConnectionPause)
		for s, r := range vs.retries {
			if r.next.After(soon) {
				r.next = soon
				vs.retries[s] = r
			}
		}
		vs.expandRefused = nil
	}
}

func (k *Keeper) markAll() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for key, vs := range k.vols {
		if !vs.entry.Quiet() || vs.record.Fate(true) != entry.Keep {
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
		if k.cfg.Allocs.Known(key.Alloc) {
			continue
		}
		k.cfg.Log.Warn("withdrawing the want of an allocation that is not here", logkey.Alloc, key.Alloc, logkey.Volume,
			key.ExternalID)
		k.mu.Lock()
		if vs := k.vols[key.StagingKey]; vs != nil {
			vs.withdraw(key.Alloc)
		}
		k.mu.Unlock()
	}
}

func (k *Keeper) wants() []volume.PublicationKey {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []volume.PublicationKey
	for key, vs := range k.vols {
		for id, p := range vs.entry.Pubs {
			if p.Wanted {
				out = append(out, volume.PublicationKey{StagingKey: key, Alloc: id})
			}
		}
	}
	return out
}

// progressPeriod is how often whoever waits for a mount hears what it waits for, though nothing changes.
const progressPeriod = 5 * time.Second

// MountVolume implements csimanager.VolumeMounter.
func (k *Keeper) MountVolume(ctx context.Context, req csimanager.MountRequest) (csimanager.MountInfo, error) {
	if err := k.want(req); err != nil {
		return csimanager.MountInfo{}, err
	}
	k.loop.Mark(req.Key.StagingKey)
	lasts := time.NewTicker(progressPeriod)
	defer lasts.Stop()
	for {
		ch := k.changed.C()
		info, why, underWay, err := k.look(req)
		if err != nil || why == "" {
			return info, err
		}
		if req.Progress != nil {
			req.Progress(why, underWay)
		}
		select {
		case <-ctx.Done():
			return csimanager.MountInfo{},
				fault.Wrap(ctx.Err(), fault.KindOf(ctx.Err()), "mount", entry.Describe(req.Key.StagingKey))
		case <-ch:
		case <-lasts.C:
		}
	}
}

// want records that an alloc needs the volume. It is reported at once and becomes durable with the first intent.
func (k *Keeper) want(g csimanager.MountRequest) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	vs := k.state(g.Key.StagingKey, g.Volume)
	if err := vs.want(g); err != nil {
		return err
	}
	k.changed.Notify() // the reporter sends it to the servers
	return nil
}

// look reports whether a want is fulfilled, what it waits for and whether that goes well, or why it never will be.
func (k *Keeper) look(g csimanager.MountRequest) (info csimanager.MountInfo, why string, underWay bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	vs := k.vols[g.Key.StagingKey]
	if vs == nil || vs.entry.Pubs[g.Key.Alloc] == nil || !vs.entry.Pubs[g.Key.Alloc].Wanted {
		return info, "", false,
			fault.New(fault.Canceled, "mount", entry.Describe(g.Key.StagingKey), "the want was withdrawn")
	}
	p := vs.entry.Pubs[g.Key.Alloc]
	switch {
	case vs.refused[g.Key.Alloc] != nil:
		return info, "", false, vs.refused[g.Key.Alloc]
	case vs.stageRefused != nil && p.Presence != volume.Present:
		return info, "", false, vs.stageRefused
	case p.Presence == volume.Present && vs.entry.Staging.Presence == volume.Present:
		return csimanager.MountInfo{
			Alias:    g.Alias,
			Volume:   g.Volume,
			Key:      g.Key,
			Source:   p.HostPath,
			Block:    vs.entry.Staging.Args.AttachmentMode == volume.BlockDevice,
			ReadOnly: g.ReadOnly || p.SeenReadOnly,
		}, "", false, nil
	case vs.lastErr != nil:
		return info, vs.lastErr.Error(), false, nil
	case vs.status.text != "":
		return info, vs.status.text, !vs.status.obstructed, nil
	}
	return info, "mounting the volume", true, nil
}

// UnmountVolume implements csimanager.VolumeMounter.
func (k *Keeper) UnmountVolume(ctx context.Context, key volume.PublicationKey) error {
	k.mu.Lock()
	if vs := k.vols[key.StagingKey]; vs != nil {
		vs.withdraw(key.Alloc)
		vs.servers.abandoned = false // the alloc's end comes next
	}
	k.mu.Unlock()
	k.loop.Mark(key.StagingKey)
	for {
		ch := k.changed.C()
		done, why := k.Free(key)
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return fault.WithHint(fault.Wrap(ctx.Err(), fault.NotReady, "unmount", entry.Describe(key.StagingKey)), why)
		case <-ch:
		}
	}
}

// Free reports that the publication is gone, and the staging too unless somebody else uses it, or what that waits for.
func (k *Keeper) Free(key volume.PublicationKey) (bool, string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	vs := k.vols[key.StagingKey]
	if vs == nil {
		return true, ""
	}
	p := vs.entry.Pubs[key.Alloc]
	gone := p == nil || !p.Presence.Exists()
	free := !vs.entry.Staging.Presence.Exists() || vs.entry.Published() || vs.entry.Wanted()
	if gone && free && (vs.record.Journal == entry.Current || vs.record.Journal == entry.Nothing) {
		return true, "" // and the disk knows, or never heard of it
	}
	if gone && vs.savedWithout(key.Alloc) && k.cfg.Holding.Pinned(key.StagingKey) != "" {
		return true, "" // the claim stays, but the next alloc on this node need not wait for who holds the device
	}
	if vs.lastErr != nil {
		return false, vs.lastErr.Error()
	}
	return false, vs.status.text
}

// savedWithout reports whether the disk knows that an alloc has no publication any more. The caller holds the lock.
func (vs *volumeState) savedWithout(alloc ids.Alloc) bool {
	return vs.saved == nil || vs.saved.Pubs[alloc] == nil || !vs.saved.Pubs[alloc].Presence.Exists()
}

// Publications implements csimanager.VolumeMounter.
func (k *Keeper) Publications(alloc ids.Alloc) []volume.PublicationKey {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []volume.PublicationKey
	for key, vs := range k.vols {
		if vs.entry.Pubs[alloc] != nil {
			out = append(out, volume.PublicationKey{StagingKey: key, Alloc: alloc})
		}
	}
	return out
}

// state returns the state of a volume, new when there is none. The caller holds the lock.
func (k *Keeper) state(key volume.StagingKey, id volume.ID) *volumeState {
	vs := k.vols[key]
	if vs == nil {
		vs = newVolumeState(&entry.Entry{Key: key, Volume: id, Boot: k.cfg.Boot})
		k.vols[key] = vs
	}
	if id.ID != "" && vs.entry.Volume != id {
		vs.entry.Volume = id
		vs.touch()
	}
	return vs
}

// Released implements csimanager.VolumeMounter.
func (k *Keeper) Released(ids.Alloc) {
	k.mu.Lock()
	k.due = true
	k.mu.Unlock()
	k.changed.Notify()
}
