package keeper_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/client/networks"
	"berth/internal/client/networks/keeper"
	"berth/internal/model/network"
	"berth/internal/port/bridge"
	"berth/internal/port/driver"
)

// namespaces is a driver that makes namespaces in a directory of its own.
type namespaces struct {
	driver.Driver
	dir  string
	own  bool // it answers with the node's own
	away bool
}

func (n *namespaces) path(id ids.Alloc) string { return filepath.Join(n.dir, "made-"+string(id)) }

func (n *namespaces) MakeNetwork(ctx context.Context, id ids.Alloc, _ string) (*driver.MadeNetwork, error) {
	if n.away {
		return nil, fault.New(fault.NotReady, "use", "the driver", "it is away")
	}
	if n.own {
		return &driver.MadeNetwork{Path: "/proc/self/ns/net"}, nil
	}
	_, err := bridge.MakeNamespace(ctx, n.path(id))
	return &driver.MadeNetwork{Path: n.path(id), State: []byte("its own")}, err
}

func (n *namespaces) EndNetwork(_ context.Context, id ids.Alloc, _ *driver.MadeNetwork) error {
	if n.away {
		return fault.New(fault.NotReady, "use", "the driver", "it is away")
	}
	return bridge.RemoveNamespace(n.path(id))
}

// withMaker is a node that has such a driver.
func withMaker(t *testing.T) (*rig, *namespaces) {
	t.Helper()
	maker := &namespaces{dir: t.TempDir()}
	r := newRig(t)
	r.maker = func(name string) (driver.NetworkMaker, error) {
		if name != "maker" {
			return nil, fault.New(fault.NotReady, "use", "driver "+name, "there is none")
		}
		return maker, nil
	}
	r.restart()
	t.Cleanup(func() {
		left, err := filepath.Glob(filepath.Join(maker.dir, "*"))
		if len(left) > 0 || err != nil {
			t.Errorf("the driver still has %v, %v", left, err)
		}
		for _, path := range left {
			must(t, bridge.RemoveNamespace(path))
		}
	})
	return r, maker
}

func byMaker(mode string) networks.Want {
	w := want(mode, 8080)
	w.Maker = "maker"
	return w
}

// TestANetworkThatADriverMakes: given a driver that makes namespaces itself, when an alloc's network is made or
// released and the agent dies at any step, then its namespace is the driver's, with the alloc's addresses, or nothing
// is left of it with the driver or the node; also when the node's store is lost, and when the driver is away meanwhile.
func TestANetworkThatADriverMakes(t *testing.T) {
	for _, mode := range []string{network.ModeBridge, network.ModeNone} {
		for n, done := 0, false; !done && !t.Failed(); n++ {
			for _, end := range []string{"goes on", "goes", "goes, and the store is lost"} {
				t.Run(fmt.Sprintf("%s/making/%d/%s", mode, n, end), func(t *testing.T) {
					r, maker := withMaker(t)
					w := byMaker(mode)
					over := crashAt(r.k, n)
					_, err := r.k.Make(t.Context(), w)
					if done = over(); done != (err == nil) || err != nil && !errors.Is(err, errCrash) {
						t.Fatal(err)
					}
					if end == "goes, and the store is lost" {
						r.crash()
						must(t, os.RemoveAll(filepath.Join(r.dir, "client")))
						r.start()
					} else {
						r.restart()
					}
					if end == "goes on" {
						r.owners.known = []ids.Alloc{w.Alloc}
						made := r.works(w)
						if !sameNamespace(t, made.Network.Namespace, maker.path(w.Alloc)) ||
							made.Network.By != "maker" || string(made.Network.Made.State) != "its own" {
							t.Errorf("made: %+v", made.Network)
						}
						must(t, r.k.Release(t.Context(), w.Alloc))
					} else if keeper.Sweep(r.k, t.Context()) {
						t.Error("it is not decided that nobody wants it")
					}
				})
			}
		}
		for n, done := 0, false; !done && !t.Failed(); n++ {
			t.Run(fmt.Sprintf("%s/releasing/%d", mode, n), func(t *testing.T) {
				r, _ := withMaker(t)
				w := byMaker(mode)
				_, err := r.k.Make(t.Context(), w)
				must(t, err)
				over := crashAt(r.k, n)
				err = r.k.Release(t.Context(), w.Alloc)
				if done = over(); done != (err == nil) || err != nil && !errors.Is(err, errCrash) {
					t.Fatal(err)
				}
				r.restart()
				r.owners.known = []ids.Alloc{w.Alloc}
				keeper.Sweep(r.k, t.Context())
				must(t, r.k.Release(t.Context(), w.Alloc))
			})
		}
	}
}

// TestADriverThatMakesNoNetwork: given a driver that is away, or answers with the node's own namespace, when an alloc
// asks for a network, then it is waited for or refused, and nothing of the node is touched; and what a driver has made
// is not forgotten while it is away.
func TestADriverThatMakesNoNetwork(t *testing.T) {
	r, maker := withMaker(t)
	w := byMaker(network.ModeBridge)
	r.owners.known = []ids.Alloc{w.Alloc}
	maker.away = true
	if _, err := r.k.Make(t.Context(), w); !fault.Has(err, fault.NotReady) {
		t.Errorf("a driver that is away: %v", err)
	}
	maker.away, maker.own = false, true
	if _, err := r.k.Make(t.Context(), w); !fault.Has(err, fault.Invalid) {
		t.Errorf("the node's own: %v", err)
	}
	maker.own = false
	r.works(w)
	maker.away = true
	if err := r.k.Release(t.Context(), w.Alloc); !fault.Has(err, fault.NotReady) {
		t.Errorf("the release: %v", err)
	}
	r.restart()
	r.owners.known = nil
	if !keeper.Sweep(r.k, t.Context()) {
		t.Error("it is forgotten")
	}
	maker.away = false
	if keeper.Sweep(r.k, t.Context()) {
		t.Error("it is not released")
	}
}

func sameNamespace(t *testing.T, a, b string) bool {
	t.Helper()
	one, err := os.Stat(a)
	must(t, err)
	other, err := os.Stat(b)
	must(t, err)
	return os.SameFile(one, other)
}
