// Package keeper owns the networks of the node's allocs: it keeps a journal of them, makes them, and releases them.
//
// A record is written before anything of a network is made, and erased after the last of it is gone. So after a crash
// at any point it is known what there may be: what is wanted is made again, every step of which finds what is there,
// and what nobody wants is released. What no record knows, because the node's store was lost, is found by its name and
// by whose it is, and released once no process of the alloc is left.
package keeper

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/client/csimanager"
	"berth/internal/client/networks"
	"berth/internal/model/alloc"
	"berth/internal/model/network"
	"berth/internal/port/bridge"
	"berth/internal/port/kv"
)

const (
	bucket   = "networks"
	dirName  = "networks"
	nsName   = "netns"
	hosts    = "hosts"
	hostname = "hostname"
	resolver = "resolv.conf"
)

// verifyPeriod is how often it is looked at whether others have flushed the table or removed the bridge, of which no
// event tells.
const verifyPeriod = 15 * time.Second

// Record is what is remembered of an alloc's network.
type Record struct {
	Alloc ids.Alloc
	Mode  string
	Boot  string // of the kernel in which it was made last
	IPv4  string `cbor:",omitempty"`
	IPv6  string `cbor:",omitempty"`
	Ports []alloc.PortMapping
	// Ending: its alloc releases it.
	Ending bool
}

// Owners says which allocs the node knows.
type Owners interface {
	// Known reports whether a record of the alloc is there, or may be.
	Known(ids.Alloc) bool
	csimanager.ProcessGate
}

// Config wires a keeper.
type Config struct {
	DataDir string
	Store   *kv.Store
	Boot    string
	Bridge  bridge.Bridge // its Owner is filled in
	Owners  Owners
	Log     *slog.Logger
}

// Keeper keeps the networks.
type Keeper struct {
	cfg  Config
	dir  string
	walk func(step) error // calls a step

	mu      sync.Mutex // held while the kernel is spoken with: one change at a time
	records map[string]*Record
	applied []network.Published // as this run of the agent wrote the table; nil: it has not
	dropped string              // which chains of others drop what is forwarded, as it was last said
}

// New loads the journal. It makes nothing.
func New(cfg Config) (*Keeper, error) {
	cfg.Log = cfg.Log.With(logkey.Component, "networks")
	cfg.Bridge.Owner = cfg.DataDir
	cfg.Bridge.Note = func(setting, from, to string) {
		cfg.Log.Info("the node is set to pass on packets of allocations; it stays so when the last of them has gone",
			"setting", setting, "from", from, "to", to)
	}
	k := &Keeper{
		cfg:     cfg,
		dir:     filepath.Join(cfg.DataDir, dirName),
		walk:    func(s step) error { return s.do() },
		records: map[string]*Record{},
	}
	err := cfg.Store.View(func(tx *kv.Tx) error {
		return kv.All(tx, bucket,
			func(key string, r *Record) error {
				k.records[key] = r
				return nil
			},
			func(key string, err error) error {
				k.cfg.Log.Error("the record of an allocation's network is damaged: it is written anew with that",
					"record", key, logkey.Error, err)
				return nil
			})
	})
	return k, err
}

// step is one change of the journal or of the kernel. Each may be repeated.
type step struct {
	name string
	do   func() error
}

func (k *Keeper) all(steps ...step) error {
	for _, s := range steps {
		if err := k.walk(s); err != nil {
			return fault.Note(err, s.name, "")
		}
	}
	return nil
}

// Make makes the network of an alloc, or completes what an earlier try, or an earlier run of the agent, has left. It
// may be repeated. Its errors are those of networks.Networks.
func (k *Keeper) Make(ctx context.Context, w networks.Want) (*networks.Made, error) {
	if !ids.IsUUID(string(w.Alloc)) {
		return nil, fault.New(fault.Invalid, "make", "a network", "the allocation's id is no UUID")
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	r := &Record{Alloc: w.Alloc, Mode: w.Mode}
	old := k.records[string(w.Alloc)]
	if old != nil {
		*r = *old
	}
	if err := r.merge(w.Mode, w.Ports); err != nil {
		return nil, err
	}
	if err := r.choose(k.cfg.Bridge.IPv4, k.cfg.Bridge.IPv6, taken(k.records)); err != nil {
		return nil, err
	}
	if err := k.unheard(ctx, r, old); err != nil {
		return nil, fault.Note(err, "make", "the network of allocation "+ids.Short(w.Alloc))
	}
	again := old != nil && old.Boot == k.cfg.Boot
	r.Boot = k.cfg.Boot
	made := &networks.Made{Status: r.status(w.DNS)}
	fresh := false
	err := k.all(
		step{"record", func() error { return k.save(r) }},
		step{"make its directory", func() error { return makeDir(k.place(r, "")) }},
		step{"write its files", func() (err error) {
			made.Network, made.Warnings, err = k.files(r, w)
			return err
		}},
	)
	if err == nil && r.isolated() {
		err = k.walk(step{"make its namespace", func() (err error) {
			fresh, err = bridge.MakeNamespace(ctx, k.place(r, nsName))
			return err
		}})
		made.Network.Namespace = k.place(r, nsName)
	}
	if err == nil && r.bridged() {
		err = k.connect(r)
	}
	if err != nil {
		return nil, fault.Note(err, "make", "the network of allocation "+ids.Short(w.Alloc))
	}
	if again && fresh {
		made.Warnings = append(made.Warnings, "Its network namespace was gone and is made anew: tasks that run keep "+
			"the old one, which leads nowhere, until they are restarted")
	}
	if r.bridged() {
		made.Warnings = append(made.Warnings, k.droppers()...)
	}
	return made, nil
}

// unheard refuses ports at which programs of the node listen, before the first record of an alloc says that they lead
// to it: the agent's own port would be an alloc's else, with the tokens that people send there.
func (k *Keeper) unheard(ctx context.Context, r, old *Record) error {
	if old != nil || !r.bridged() {
		return nil
	}
	v4, v6 := r.addresses()
	for _, p := range network.Publish(r.Ports, v4, v6) {
		if err := bridge.Listening(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// connect gives a namespace its link, and the node's ports their way to it. The table comes before the link: it keeps
// allocs from the node's loopback.
func (k *Keeper) connect(r *Record) error {
	v4, v6 := r.addresses()
	return k.all(
		step{"make the bridge", k.cfg.Bridge.Ensure},
		step{"write the table", k.apply},
		step{"connect it", func() error {
			return k.cfg.Bridge.Connect(bridge.Member{
				Namespace: k.place(r, nsName),
				Link:      network.Link(r.Alloc),
				IPv4:      v4,
				IPv6:      v6,
			})
		}},
	)
}

// apply writes the table if it is to say something else.
func (k *Keeper) apply() error {
	want := published(k.records)
	if k.applied != nil && slices.Equal(want, k.applied) {
		return nil
	}
	var err error
	if k.applied == nil {
		err = k.cfg.Bridge.Apply(want)
	} else if err = k.cfg.Bridge.Update(network.Difference(k.applied, want)); err != nil {
		err = k.cfg.Bridge.Apply(want) // somebody has changed the table meanwhile
	}
	if err != nil {
		k.applied = nil
		return err
	}
	if k.applied = want; want == nil {
		k.applied = []network.Published{}
	}
	return nil
}

// Release releases the network of an alloc, and the bridge with the last one. It may be repeated, and returns nil when
// nothing is left.
func (k *Keeper) Release(id ids.Alloc) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.records[string(id)]
	if r == nil {
		return nil
	}
	return fault.Note(k.release(r), "release", "the network of allocation "+ids.Short(id))
}

// release takes down what a record knows. The caller holds the lock.
func (k *Keeper) release(r *Record) error {
	ending := *r
	ending.Ending = true
	err := k.all(step{"record", func() error { return k.save(&ending) }})
	if err == nil && r.bridged() {
		err = k.all(
			step{"write the table", k.applyRest},
			step{"disconnect it", func() error { return k.cfg.Bridge.Disconnect(network.Link(r.Alloc)) }},
		)
	}
	if err != nil {
		return err
	}
	return k.all(
		step{"release its namespace", func() error { return bridge.RemoveNamespace(k.place(r, nsName)) }},
		step{"remove its directory", func() error { return os.RemoveAll(k.place(r, "")) }},
		step{"remove the bridge", k.removeUnused},
		step{"erase its record", func() error { return k.erase(r) }},
	)
}

// applyRest writes the table without what is released; with the last alloc it goes anyway.
func (k *Keeper) applyRest() error {
	if len(published(k.records)) == 0 && k.others() == 0 {
		return nil
	}
	return k.apply()
}

// others counts the allocs on the bridge that are not being released.
func (k *Keeper) others() (n int) {
	for _, r := range k.records {
		if r.bridged() && !r.Ending {
			n++
		}
	}
	return n
}

// removeUnused takes the bridge down when every alloc on it is being released.
func (k *Keeper) removeUnused() error {
	if !anyBridged(k.records) || k.others() > 0 {
		return nil
	}
	k.applied = nil
	return k.cfg.Bridge.Remove()
}

func (k *Keeper) save(r *Record) error {
	err := k.cfg.Store.Update(func(tx *kv.Tx) error { return tx.Put(bucket, string(r.Alloc), r) })
	if err == nil {
		k.records[string(r.Alloc)] = r
	}
	return err
}

func (k *Keeper) erase(r *Record) error {
	err := k.cfg.Store.Update(func(tx *kv.Tx) error { return tx.Delete(bucket, string(r.Alloc)) })
	if err == nil {
		delete(k.records, string(r.Alloc))
	}
	return err
}

// place is a file of an alloc's network, or its directory.
func (k *Keeper) place(r *Record, name string) string {
	return filepath.Join(k.dir, string(r.Alloc), name)
}

func makeDir(dir string) error {
	return fault.Wrap(os.MkdirAll(dir, 0o755), fault.Internal, "make directory", dir)
}

// droppers says which chains of others drop what is forwarded. The caller holds the lock.
func (k *Keeper) droppers() []string {
	all, err := k.cfg.Bridge.Droppers()
	if err != nil {
		k.cfg.Log.Warn("other chains of nftables could not be read", logkey.Error, err)
		return nil
	}
	text := dropping(k.cfg.Bridge.Name, all)
	if text != k.dropped && text != "" {
		k.cfg.Log.Warn(text)
	}
	if k.dropped = text; text == "" {
		return nil
	}
	return []string{text}
}

// Run releases what no alloc wants, and makes again what others have taken away, until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	tick := time.NewTicker(verifyPeriod)
	defer tick.Stop()
	for {
		changed := k.cfg.Owners.Changed()
		undecided := k.sweep(ctx)
		if !undecided {
			changed = nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-tick.C:
		}
		k.verify()
	}
}

// verify makes bridge, table and links again where somebody has removed them.
func (k *Keeper) verify() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.others() == 0 {
		return
	}
	there, err := k.cfg.Bridge.Whole()
	if err == nil && there {
		return
	}
	if err == nil {
		k.cfg.Log.Warn("somebody has removed the bridge of the allocations or its nftables table; they are made again",
			"bridge", k.cfg.Bridge.Name)
		k.applied = nil
	}
	for _, id := range slices.Sorted(maps.Keys(k.records)) {
		if r := k.records[id]; err == nil && r.bridged() && !r.Ending {
			err = k.connect(r)
		}
	}
	if err != nil {
		k.cfg.Log.Error("networks of allocations could not be looked after", logkey.Error, err)
	}
}
