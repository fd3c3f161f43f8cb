// Package keeper owns the networks of the node's allocs: it keeps a journal of them, makes them, and releases them.
//
// A record is written before anything of a network is made, and erased after the last of it is gone. So after a crash
// at any point it is known what there may be: what is wanted is made again, every step of which finds what is there,
// and what nobody wants is released. What no record knows, because the node's store was lost, is found by its name and
// by whose it is, and released once no process of the alloc is left.
package keeper

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
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
	"berth/internal/port/cni"
	"berth/internal/port/driver"
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
	Plugins cni.Plugins
	Owners  Owners
	// Maker finds the driver that makes namespaces of allocs itself; nil: there is none.
	Maker func(name string) (driver.NetworkMaker, error)
	Log   *slog.Logger
}

// Keeper keeps the networks.
type Keeper struct {
	cfg  Config
	dir  string
	walk func(step) error // calls a step

	mu      sync.Mutex // held while the kernel is spoken with, but for what a release takes down
	records map[string]*Record
	applied []network.Published // as this run of the agent wrote the table; nil: it has not
	dropped string              // which chains of others drop what is forwarded, as it was last said
	unused  time.Time           // since when the bridge, which is there, has no alloc; zero: it is not known to be so
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
	made := &networks.Made{}
	by, err := k.byDriver(ctx, w)
	var r *Record
	if err == nil {
		r, err = k.begin(ctx, w, by, made)
	}
	if err == nil && r.plugged() {
		err = k.plug(ctx, r, w, made)
	}
	if err != nil {
		return nil, fault.Note(err, "make", "the network of allocation "+ids.Short(w.Alloc))
	}
	return made, nil
}

// begin makes all of a network that is made without CNI plugins.
func (k *Keeper) begin(ctx context.Context, w networks.Want, by *maker, made *networks.Made) (*Record, error) {
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
		return nil, fault.Note(err, "connect", fmt.Sprintf("it to bridge %q", k.cfg.Bridge.Name))
	}
	if err := k.unheard(ctx, r, old); err != nil {
		return nil, err
	}
	again := old != nil && old.Boot == k.cfg.Boot
	r.Boot = k.cfg.Boot
	made.Status = r.status(w.DNS)
	if by != nil {
		made.Network.By, made.Network.Made = by.Driver, by.Made
	}
	err := k.all(
		step{"record", func() error { return k.save(r) }},
		step{"make its directory", func() error { return makeDir(k.place(r, "")) }},
	)
	if err == nil && !r.plugged() {
		err = k.writeFiles(r, w, made)
	}
	fresh := false
	if err == nil && r.isolated() {
		err = k.walk(step{"make its namespace", func() (err error) {
			if by != nil {
				fresh, err = bridge.HoldNamespace(by.Made.Path, k.place(r, nsName))
				return err
			}
			fresh, err = bridge.MakeNamespace(ctx, k.place(r, nsName))
			return err
		}})
	}
	if err == nil && r.bridged() {
		err = k.connect(r)
	}
	if err != nil {
		return nil, err
	}
	if again && fresh {
		made.Warnings = append(made.Warnings, "Its network namespace was gone and is made anew: tasks that run keep "+
			"the old one, which leads nowhere, until they are restarted")
	}
	if r.bridged() {
		made.Warnings = append(made.Warnings, k.droppers()...)
	}
	return r, nil
}

// writeFiles writes the files of an alloc's network, and tells the driver of it.
func (k *Keeper) writeFiles(r *Record, w networks.Want, made *networks.Made) error {
	return k.walk(step{"write its files", func() error {
		out, warnings, err := k.files(r, w)
		out.By, out.Made = made.Network.By, made.Network.Made
		if w.DNS != nil {
			out.Resolver = driver.Resolver{Servers: w.DNS.Servers, Searches: w.DNS.Searches, Options: w.DNS.Options}
		}
		made.Network = out
		made.Warnings = append(made.Warnings, warnings...)
		if r.isolated() {
			made.Network.Namespace = k.place(r, nsName)
		}
		return err
	}})
}

// unheard refuses ports at which programs of the node listen, before the first record of an alloc says that they lead
// to it: the agent's own port would be an alloc's else, with the tokens that people send there.
func (k *Keeper) unheard(ctx context.Context, r, old *Record) error {
	if old != nil || !r.connected() {
		return nil
	}
	v4, v6 := r.addresses()
	if r.plugged() { // the plugins choose, and it is asked before
		v4, v6 = netip.IPv4Unspecified(), netip.IPv6Unspecified()
	}
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
	err := k.all(
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
	if err == nil {
		k.unused = time.Time{}
	}
	return err
}

// apply writes the table if it is to say something else, or if others have removed it while no alloc was there.
func (k *Keeper) apply() error {
	want := published(k.records)
	if k.applied != nil && !k.unused.IsZero() {
		if there, err := k.cfg.Bridge.Applied(); err != nil || !there {
			k.applied = nil
		}
	}
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

// Release releases the network of an alloc. It may be repeated, and returns nil when nothing is left. The kernel takes
// its time for that, in which others are made.
func (k *Keeper) Release(ctx context.Context, id ids.Alloc) error {
	k.mu.Lock()
	r := k.records[string(id)]
	k.mu.Unlock()
	if r == nil {
		if by, err := k.madeBy(id); by == nil || err != nil {
			return err
		}
		r = &Record{Alloc: id, Mode: network.ModeNone, Boot: k.cfg.Boot} // it came no further than its driver
	}
	err := k.detach(ctx, r) // without the lock, as attach
	if err == nil {
		err = k.locked(func() error { return k.close(r) })
	}
	if err == nil {
		err = k.takeDown(ctx, r)
	}
	if err == nil {
		err = k.locked(func() error { return k.forget(r) })
	}
	return fault.Note(err, "release", "the network of allocation "+ids.Short(id))
}

func (k *Keeper) locked(do func() error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return do()
}

// release takes down what a record knows, of an alloc that is gone. The caller holds the lock.
func (k *Keeper) release(ctx context.Context, r *Record) error {
	err := k.close(r)
	if err == nil {
		err = k.detach(ctx, r)
	}
	if err == nil {
		err = k.takeDown(ctx, r)
	}
	if err != nil {
		return err
	}
	return k.forget(r)
}

// close writes down that a network ends, from when on no port leads to it. The caller holds the lock.
func (k *Keeper) close(r *Record) error {
	ending := *r
	ending.Ending = true
	err := k.all(step{"record", func() error { return k.save(&ending) }})
	if err == nil && r.bridged() {
		err = k.all(step{"write the table", k.applyRest})
	}
	return err
}

// takeDown removes what the kernel has of a network that ends, and its files.
func (k *Keeper) takeDown(ctx context.Context, r *Record) error {
	if r.bridged() {
		err := k.all(step{"disconnect it", func() error { return k.cfg.Bridge.Disconnect(network.Link(r.Alloc)) }})
		if err != nil {
			return err
		}
	}
	return k.all(
		step{"release its namespace", func() error { return bridge.RemoveNamespace(k.place(r, nsName)) }},
		step{"have its driver end it", func() error { return k.endByDriver(ctx, r.Alloc) }},
		step{"remove its directory", func() error { return os.RemoveAll(k.place(r, "")) }},
	)
}

// forget erases the record of a network of which nothing is left. The caller holds the lock.
func (k *Keeper) forget(r *Record) error {
	err := k.all(step{"erase its record", func() error { return k.erase(r) }})
	if err == nil && r.bridged() && !anyBridged(k.records) {
		k.unused = time.Now()
	}
	return err
}

// applyRest writes the table without what is released. With the last alloc, one that this run of the agent has not
// written goes with the bridge.
func (k *Keeper) applyRest() error {
	if k.applied == nil && k.others() == 0 {
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
