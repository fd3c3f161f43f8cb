package keeper

import (
	"context"
	"encoding/json"
	"errors"
	"os"

	"berth/internal/base/durable"
	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/client/networks"
	"berth/internal/port/driver"
)

// makerFile is the file in an alloc's directory that says which driver makes its namespace. It is there from before the
// driver is asked for the first time until it has ended the network, whatever becomes of the node's store.
const makerFile = "driver.json"

// maker is what that file holds.
type maker struct {
	Driver string
	Made   *driver.MadeNetwork // nil: the driver was asked, and no answer is known
}

// madeBy reads that file; nil: there is none.
func (k *Keeper) madeBy(id ids.Alloc) (*maker, error) {
	path := k.place(&Record{Alloc: id}, makerFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var m maker
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	return &m, fault.Wrap(err, fault.Internal, "read", path)
}

func (k *Keeper) rememberMaker(id ids.Alloc, m *maker) error {
	path := k.place(&Record{Alloc: id}, makerFile)
	b, err := json.Marshal(m)
	if err == nil {
		err = durable.WriteFile(path, b, 0o600)
	}
	return fault.Wrap(err, fault.Internal, "write", path)
}

// byDriver has a driver make the namespace of an alloc, where one insists on that; nil: none does. It is called without
// the lock: a plugin may take its time, and nobody else touches this alloc meanwhile. A driver is asked again at each
// try, for after a restart of the machine, or of its own daemon, what it had made may be gone.
func (k *Keeper) byDriver(ctx context.Context, w networks.Want) (*maker, error) {
	if w.Maker == "" {
		return nil, nil
	}
	d, err := k.findMaker(w.Maker)
	if err != nil {
		return nil, err
	}
	was, err := k.madeBy(w.Alloc)
	if err != nil {
		return nil, err
	}
	m := &maker{Driver: w.Maker}
	if was != nil && was.Driver != w.Maker {
		return nil, fault.New(fault.Invalid, "", "", "driver "+was.Driver+" has made its namespace, and now "+w.Maker+
			" is to make it")
	}
	if was != nil {
		m.Made = was.Made
	}
	err = k.all(
		step{"make its directory", func() error { return makeDir(k.place(&Record{Alloc: w.Alloc}, "")) }},
		step{"write down who makes it", func() error { return k.rememberMaker(w.Alloc, m) }},
		step{"have its driver make it", func() (err error) {
			m.Made, err = d.MakeNetwork(ctx, w.Alloc, w.Hostname)
			return err
		}},
		step{"write down what was made", func() error { return k.rememberMaker(w.Alloc, m) }},
	)
	return m, err
}

// endByDriver has the driver that made an alloc's namespace end it. It may be repeated.
func (k *Keeper) endByDriver(ctx context.Context, id ids.Alloc) error {
	m, err := k.madeBy(id)
	if m == nil || err != nil {
		return err
	}
	d, err := k.findMaker(m.Driver)
	if err == nil {
		err = d.EndNetwork(ctx, id, m.Made)
	}
	return err
}

func (k *Keeper) findMaker(name string) (driver.NetworkMaker, error) {
	if k.cfg.Maker == nil {
		return nil, fault.New(fault.NotReady, "use", "driver "+name, "this node has no driver that makes networks")
	}
	return k.cfg.Maker(name)
}
