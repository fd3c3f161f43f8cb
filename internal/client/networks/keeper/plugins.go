package keeper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"berth/internal/base/durable"
	"berth/internal/base/fault"
	"berth/internal/base/logkey"
	"berth/internal/client/networks"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/network"
	"berth/internal/port/bridge"
	"berth/internal/port/cni"
)

// attachment is the file in an alloc's directory that says how its namespace is attached by CNI plugins. It is there
// from before they are called for the first time until they have detached it, whatever becomes of the node's store.
const attachment = "cni.json"

// attached reads that file; nil: there is none, and nothing says that the alloc was attached. A file that was damaged
// or lost is made up for by what else tells of it.
func (k *Keeper) attached(r *Record) (*cni.Attachment, error) {
	b, err := os.ReadFile(k.place(r, attachment))
	if errors.Is(err, os.ErrNotExist) {
		return k.recalled(r, nil)
	}
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "read", k.place(r, attachment))
	}
	var a cni.Attachment
	if err = json.Unmarshal(b, &a); err == nil && a.Container != string(r.Alloc) {
		err = errors.New("it names another container")
	}
	if err != nil {
		return k.recalled(r, err)
	}
	return &a, nil
}

// recalled is how an alloc was attached of which the file does not tell: as the library of plugins keeps it, else by
// the configuration that its network has now. Damaged: what is wrong with the file; nil: there is none, and without a
// trace of the plugins' work they were not called.
func (k *Keeper) recalled(r *Record, damaged error) (*cni.Attachment, error) {
	below, ns := k.place(r, "cni"), k.place(r, nsName)
	a, err := cni.Remembered(k.cfg.Plugins.Path, below, string(r.Alloc), ns)
	if err != nil || a == nil && damaged == nil && !r.plugged() {
		return nil, err
	}
	if a == nil && damaged == nil {
		if there, err := bridge.IsNamespace(ns); err != nil || !there {
			return nil, err
		}
		if addrs, err := bridge.Addresses(ns); err != nil || len(addrs) == 0 {
			return nil, err
		}
	}
	if a == nil {
		name, _ := network.CNI(r.Mode)
		found, err := k.cfg.Plugins.Find(name)
		if name == "" || err != nil {
			return nil, k.unknown(r, damaged)
		}
		a = &cni.Attachment{
			Network:    *found,
			Path:       k.cfg.Plugins.Path,
			Container:  string(r.Alloc),
			Namespace:  ns,
			Interface:  network.Interface,
			Ports:      pluginPorts(r.Ports),
			CacheBelow: below,
		}
	}
	k.cfg.Log.Warn("the file that says how CNI plugins have attached an allocation is gone or damaged; they detach it "+
		"as is known otherwise", logkey.Alloc, r.Alloc, "file", k.place(r, attachment), "network", a.Network.Name,
		logkey.Error, damaged)
	return a, nil
}

// unknown says that nothing tells how an alloc was attached, and what a person can do.
func (k *Keeper) unknown(r *Record, damaged error) error {
	why := "is gone"
	if damaged != nil {
		why = "is damaged (" + damaged.Error() + ")"
	}
	return fault.WithHint(fault.New(fault.Unavailable, "read", "how CNI plugins have attached it",
		fmt.Sprintf("the file %s %s, and what else says it is not there", k.place(r, attachment), why)),
		fmt.Sprintf("bring the file back; or have the plugins detach container %s by hand (their command DEL), then "+
			"remove the directory %s: it is tried again", r.Alloc, k.place(r, "")))
}

func (k *Keeper) remember(r *Record, a *cni.Attachment) error {
	b, err := json.Marshal(a)
	if err == nil {
		err = durable.WriteFile(k.place(r, attachment), b, 0o600)
	}
	return fault.Wrap(err, fault.Internal, "write", k.place(r, attachment))
}

// attach has CNI plugins attach the alloc's namespace, unless they have, and puts its addresses into the record. What
// an earlier try may have left they detach before: nothing says how far it came. It is called without the lock: a
// plugin may take its time, and nobody else touches this alloc meanwhile.
func (k *Keeper) attach(ctx context.Context, r *Record, w networks.Want) (*cni.Result, error) {
	name, _ := network.CNI(r.Mode)
	old, err := k.attached(r)
	if err != nil {
		return nil, err
	}
	if old != nil {
		addrs, err := bridge.Addresses(k.place(r, nsName))
		if err != nil {
			return nil, err
		}
		there := func(text string) bool { return text == "" || slices.Contains(addrs, address(text)) }
		if old.Result != nil && len(addrs) > 0 && there(old.Result.IPv4) && there(old.Result.IPv6) {
			return old.Result, nil
		}
		if err := k.detach(ctx, r); err != nil {
			return nil, err
		}
	}
	found, err := k.cfg.Plugins.Find(name)
	if err != nil {
		return nil, err
	}
	a := &cni.Attachment{
		Network:    *found,
		Path:       k.cfg.Plugins.Path,
		Container:  string(r.Alloc),
		Namespace:  k.place(r, nsName),
		Interface:  network.Interface,
		Ports:      pluginPorts(r.Ports),
		CacheBelow: k.place(r, "cni"),
	}
	for key, value := range w.Args {
		a.Args = append(a.Args, [2]string{key, value})
	}
	slices.SortFunc(a.Args, func(x, y [2]string) int { return slices.Compare(x[:], y[:]) })
	err = k.all(
		step{"write down how it is attached", func() error { return k.remember(r, a) }},
		step{"call its plugins", func() (err error) {
			a.Result, err = a.Add(ctx)
			return err
		}},
		step{"write down what it has", func() error { return k.remember(r, a) }},
	)
	return a.Result, err
}

// plug completes the network of an alloc by CNI plugins.
func (k *Keeper) plug(ctx context.Context, r *Record, w networks.Want, made *networks.Made) error {
	res, err := k.attach(ctx, r, w)
	if err != nil {
		return err
	}
	has := *r
	has.IPv4, has.IPv6 = res.IPv4, res.IPv6
	w.DNS = resolving(w.DNS, res)
	made.Status = has.status(w.DNS)
	return k.writeFiles(&has, w, made)
}

// detach has CNI plugins detach the namespace as it was attached. It may be repeated.
func (k *Keeper) detach(ctx context.Context, r *Record) error {
	a, err := k.attached(r)
	if a == nil || err != nil {
		return err
	}
	there, err := bridge.IsNamespace(a.Namespace)
	if err != nil {
		return err
	}
	if !there {
		a.Namespace = "" // the kernel has forgotten it; plugins have not
	}
	return k.all(
		step{"call its plugins", func() error { return a.Del(ctx) }},
		step{"forget how it was attached", func() error {
			err := os.Remove(k.place(r, attachment))
			if errors.Is(err, os.ErrNotExist) { // it was lost
				err = nil
			}
			return fault.Wrap(err, fault.Internal, "remove", k.place(r, attachment))
		}},
	)
}

// pluginPorts are the ports of the node that lead to an alloc, as plugins take them.
func pluginPorts(ports []alloc.PortMapping) (out []cni.Port) {
	for _, p := range ports {
		to := p.To
		if to <= 0 {
			to = p.Value
		}
		for _, protocol := range []string{"tcp", "udp"} {
			out = append(out, cni.Port{HostPort: p.Value, ContainerPort: to, Protocol: protocol, HostIP: p.HostIP})
		}
	}
	return out
}

// resolving is how names are resolved where the job says nothing: as the plugins answered.
func resolving(asked *job.DNS, res *cni.Result) *job.DNS {
	if asked != nil || res == nil || len(res.Servers)+len(res.Searches)+len(res.Options) == 0 {
		return asked
	}
	return &job.DNS{Servers: res.Servers, Searches: res.Searches, Options: res.Options}
}
