package keeper

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"os"
	"slices"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/model/network"
	"berth/internal/port/bridge"
)

// sweep releases what no alloc of the node wants. undecided: of some it is not proven yet that no process is left.
func (k *Keeper) sweep(ctx context.Context) (undecided bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	found, err := k.unrecorded()
	k.complain(err)
	for _, r := range found {
		k.records[string(r.Alloc)] = r // in memory: it is written with the first step
	}
	for _, id := range slices.Sorted(maps.Keys(k.records)) {
		r := k.records[id]
		if ctx.Err() != nil {
			return true
		}
		if k.cfg.Owners.Known(r.Alloc) {
			continue // its own runner makes it and releases it
		}
		if gone, _ := k.cfg.Owners.ProcessesGone(r.Alloc); !gone {
			undecided = true
			continue
		}
		k.cfg.Log.Info("the network of an allocation that is gone is released", logkey.Alloc, r.Alloc)
		if err := k.release(ctx, r); err != nil {
			k.complain(err)
			undecided = true
		}
	}
	k.complain(k.strays())
	return undecided
}

func (k *Keeper) complain(err error) {
	if err != nil {
		k.cfg.Log.Error("what earlier runs of the agent left of networks could not be released; it is tried again",
			logkey.Error, err)
	}
}

// unrecorded are networks of which no record tells: the node's store was lost. What they are is read from the kernel,
// so that nobody else is given their addresses.
func (k *Keeper) unrecorded() ([]*Record, error) {
	entries, err := os.ReadDir(k.dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "read", k.dir)
	}
	var out []*Record
	var errs []error
	for _, e := range entries {
		if k.records[e.Name()] != nil || !ids.IsUUID(e.Name()) {
			continue
		}
		r, err := k.found(ids.Alloc(e.Name()))
		if err != nil { // it holds up no other
			errs = append(errs, fault.Note(err, "find", "the network of allocation "+e.Name()))
			continue
		}
		out = append(out, r)
	}
	return out, errors.Join(errs...)
}

// found is the network of an alloc of which no record tells.
func (k *Keeper) found(id ids.Alloc) (*Record, error) {
	r := &Record{Alloc: id, Mode: network.ModeHost, Boot: k.cfg.Boot}
	path := k.place(r, nsName)
	there, err := bridge.IsNamespace(path)
	if err != nil {
		return nil, err
	}
	a, err := k.attached(r)
	if err != nil {
		return nil, err
	}
	if a != nil { // it has no part of the bridge
		r.Mode = network.ModeCNI(a.Network.Name)
		return r, nil
	}
	if there {
		addrs, err := bridge.Addresses(path)
		if err != nil {
			return nil, err
		}
		r.adopt(addrs)
	}
	return r, nil
}

// adopt takes over what a namespace was found to have.
func (r *Record) adopt(addrs []netip.Addr) {
	r.Mode = network.ModeNone
	for _, a := range addrs {
		r.Mode = network.ModeBridge
		if a.Is4() {
			r.IPv4 = a.String()
		} else {
			r.IPv6 = a.String()
		}
	}
}

// lingers is how long the bridge stays without allocs, for the next one: to make it takes as long as all else of a
// network, and to remove it holds up the kernel for longer.
const lingers = time.Minute

// strays removes links of this agent's that no record knows, and a bridge that has had none for a while.
func (k *Keeper) strays() error {
	links, err := k.cfg.Bridge.Links()
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, r := range k.records {
		known[network.Link(r.Alloc)] = true
	}
	for _, name := range links {
		if !known[name] {
			err = errors.Join(err, k.cfg.Bridge.Disconnect(name))
		}
	}
	switch {
	case err != nil || anyBridged(k.records):
		return err
	case k.unused.IsZero(): // an earlier run of the agent may have left it
		k.applied = nil
		return k.cfg.Bridge.RemoveOwn()
	case time.Since(k.unused) < lingers:
		return nil
	}
	return k.removeUnused()
}

// removeUnused takes down the bridge of this run of the agent. The caller holds the lock.
func (k *Keeper) removeUnused() error {
	k.applied = nil
	err := k.cfg.Bridge.Remove()
	if err == nil {
		k.unused = time.Time{}
	}
	return err
}

// leave takes down a bridge that nobody uses: the agent ends, and may be the last of its kind.
func (k *Keeper) leave() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.unused.IsZero() && !anyBridged(k.records) {
		k.complain(k.removeUnused())
	}
	k.cfg.Bridge.Close()
}
