package node_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"berth/internal/base/ids"
	"berth/internal/client/csimanager"
	"berth/internal/client/csimanager/entry"
	"berth/internal/client/csimanager/instance"
	"berth/internal/client/csimanager/node"
	"berth/internal/conformance/csi/proxy"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
	"berth/internal/port/hostfs"
	"berth/internal/wire"
)

// TestTheServersNeverBelieveLessAndBelieveNothingInTheEnd walks at random through wants, withdrawals, passes, reports
// and answers that are lost or late, crashes and restarts, in every order, also between the steps of a pass. At each
// moment the servers know of whatever is mounted; in the end, when all is withdrawn, nobody has anything.
func TestTheServersNeverBelieveLessAndBelieveNothingInTheEnd(t *testing.T) {
	walks := 60
	if testing.Short() {
		walks = 10
	}
	for seed := range walks {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := newWalk(t, uint64(seed))
			for range 60 {
				w.step()
			}
			w.finish()
		})
	}
}

// walk is a node whose every step the test takes.
type walk struct {
	*rig
	rng     *rand.Rand
	volumes []csi.Volume
	trail   []string
	mounted int // moments at which something was mounted

	// The reporter's part.
	full    bool
	prev    uint64
	sent    *wire.InventoryReport // begun and not answered
	reply   *wire.InventoryReply  // what the servers answered to it
	delayed []*wire.InventoryReport

	ctx     context.Context // of a pass
	crash   context.CancelFunc
	crashed bool
	inside  bool // a pass is under way
}

func newWalk(t *testing.T, seed uint64) *walk {
	p, v := startPlugin(t)
	w := &walk{
		rig:     newRig(t, p),
		rng:     rand.New(rand.NewPCG(seed, 0)),
		volumes: []csi.Volume{v, makeVolume(t, p, "vol-2")},
		full:    true,
	}
	w.kill()
	w.byHand = true
	w.plugins = func(p instance.Plugins) instance.Plugins { return between{p, w} }
	w.codec.Encode = func(v any) ([]byte, error) {
		if _, ok := v.(*entry.Entry); ok && w.inside {
			w.aside()
			if w.rng.IntN(25) == 0 {
				w.log("crash at a write")
				w.crashed = true
				w.crash()
			}
			if w.crashed {
				return nil, errCrash
			}
		}
		return codec.Encode(v)
	}
	w.start()
	return w
}

// between lets things happen between a pass's choice of a step and the step.
type between struct {
	instance.Plugins
	w *walk
}

func (b between) Use(id ids.Plugin, role plugin.Role) (*instance.Connection, error) {
	if b.w.inside {
		b.w.aside()
	}
	return b.Plugins.Use(id, role)
}

func (w *walk) start() {
	w.t.Helper()
	w.open()
	w.crashed = false
	w.full = true
	w.prev = 0
	w.sent = nil
	w.reply = nil
	eventually(w.t, "the plugin is ready", func() bool {
		conn, err := w.instances.Use(ids.Plugin(w.p.ID), plugin.RoleNode)
		if err == nil {
			conn.Release()
		}
		return err == nil
	})
}

func (w *walk) restart() {
	if w.sent != nil && w.reply == nil {
		w.delayed = append(w.delayed, w.sent)
	}
	w.p.Mark(proxy.CallerCrashed, proxy.Entry{})
	w.kill()
	w.start()
}

func (w *walk) log(format string, args ...any) {
	w.trail = append(w.trail, fmt.Sprintf(format, args...))
}

func (w *walk) failf(format string, args ...any) {
	w.t.Helper()
	for _, s := range w.trail[:min(len(w.trail), 400)] {
		w.t.Log(s)
	}
	w.t.Fatalf(format, args...)
}

func (w *walk) request(v csi.Volume, alloc string) csimanager.MountRequest {
	g := requestOf(w.p, use(v, alloc))
	g.Volume.ID = ids.Volume(v.ID)
	return g
}

// step lets anything happen.
func (w *walk) step() {
	switch w.rng.IntN(20) {
	case 0:
		w.log("restart")
		w.restart()
	case 1, 2, 3, 4, 5, 6:
		w.pass(w.volumes[w.rng.IntN(len(w.volumes))])
	default:
		w.aside()
	}
	w.check()
}

// aside lets something happen that does not wait for a pass.
func (w *walk) aside() {
	v, alloc := w.volumes[w.rng.IntN(len(w.volumes))], string(rune('a'+w.rng.IntN(2)))
	gone, cancel := context.WithCancel(w.t.Context())
	cancel() // nobody waits
	switch w.rng.IntN(8) {
	case 0:
		w.log("want %s %s", v.ID, alloc)
		_, _ = w.keeper.MountVolume(gone, w.request(v, alloc))
	case 1:
		w.log("withdraw %s %s", v.ID, alloc)
		_ = w.keeper.UnmountVolume(gone, w.request(v, alloc).Key)
	case 2, 3, 4, 5:
		w.report(w.rng.IntN(6) == 0)
	case 6:
		if len(w.delayed) > 0 {
			late := w.delayed[0]
			w.delayed = w.delayed[1:]
			reply, err := w.servers.SendInventory(w.t.Context(), late)
			w.log("a delayed report arrives: %+v, %v", reply, err)
		}
	}
	w.check()
}

// report takes the report one step on: it is begun, arrives, is answered; or something of it is lost, which ends the
// connection.
func (w *walk) report(fails bool) {
	switch {
	case w.sent == nil:
		entries := w.keeper.BeginReport(w.full)
		w.log("report, full %v: %+v", w.full, entries)
		w.sent = &wire.InventoryReport{Full: w.full, At: w.servers.Seen(), Prev: w.prev, Entries: entries}
	case fails:
		w.log("its connection is lost; it arrived %v", w.reply != nil)
		if w.reply == nil {
			w.delayed = append(w.delayed, w.sent)
		}
		w.full = true
		w.prev = 0
		w.sent = nil
		w.reply = nil
	case w.reply == nil:
		w.log("it arrives")
		w.reply, _ = w.servers.SendInventory(w.t.Context(), w.sent)
	default:
		w.log("it is answered: %+v", w.reply)
		w.full, w.prev = w.reply.Stale, w.reply.Head
		if !w.reply.Stale {
			w.keeper.Acknowledge(w.sent.Entries, w.reply)
		}
		w.sent, w.reply = nil, nil
	}
}

func (w *walk) pass(v csi.Volume) {
	w.log("pass of %s", v.ID)
	w.ctx, w.crash = context.WithTimeout(w.t.Context(), time.Minute)
	defer w.crash()
	w.inside = true
	err := w.keeper.Pass(w.ctx, w.request(v, "").Key.StagingKey)
	w.inside = false
	w.log("it ends with %v", err)
	if w.crashed {
		w.restart()
	}
}

// check compares the mount table with what the servers believe.
func (w *walk) check() {
	w.t.Helper()
	table, err := hostfs.ReadTable()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, v := range w.volumes {
		key := w.request(v, "").Key.StagingKey
		believed := w.servers.Staged(key)
		for _, alloc := range []ids.Alloc{"a", "b"} {
			pub := volume.PublicationKey{StagingKey: key, Alloc: alloc}
			believed = believed || w.servers.Believe(pub)
			if _, mounted := table.At(node.TargetPath(w.base(), v.ID, alloc)); mounted {
				w.mounted++
				if !w.servers.Believe(pub) {
					w.failf("%s is published for %s, and the servers do not know: %+v", v.ID, alloc,
						w.servers.Entries())
				}
			}
		}
		if len(table.Beneath(node.StagingPath(w.base(), v.ID))) > 0 && !believed {
			w.failf("%s is staged, and the servers do not know: %+v", v.ID, w.servers.Entries())
		}
	}
}

// lastRound bounds the rounds of finish. Nothing hinders them: what a few do not take away stays.
const lastRound = 20

// finish withdraws everything, lets passes and reports get through, and looks for what is left.
func (w *walk) finish() {
	w.log("the end")
	for round := 1; ; round++ {
		gone, cancel := context.WithCancel(w.t.Context())
		cancel()
		for _, v := range w.volumes {
			for _, alloc := range []string{"a", "b"} {
				_ = w.keeper.UnmountVolume(gone, w.request(v, alloc).Key)
			}
			if err := w.keeper.Pass(w.t.Context(), w.request(v, "").Key.StagingKey); err != nil {
				w.failf("%v", err)
			}
		}
		for range 3 {
			w.report(false)
		}
		w.check()
		if len(w.servers.Entries()) == 0 && w.keeper.Entries() == 0 && w.records() == 0 {
			break
		}
		if round == lastRound {
			w.failf("left: %s; the servers believe in %+v, the keeper has %d entries, the store %d", w.keeper.Show(),
				w.servers.Entries(), w.keeper.Entries(), w.records())
		}
	}
	w.atRest()
}
