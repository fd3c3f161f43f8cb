package keeper_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/client/localstate"
	"berth/internal/client/networks"
	"berth/internal/client/networks/keeper"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/network"
	"berth/internal/port/bridge"
	"berth/internal/port/cni"
	"berth/internal/port/driver"
)

// owners are the allocs that the node knows, and those of which processes live.
type owners struct{ known, alive []ids.Alloc }

func (o *owners) Known(id ids.Alloc) bool { return slices.Contains(o.known, id) }

func (o *owners) ProcessesGone(id ids.Alloc) (bool, string) { return !slices.Contains(o.alive, id), "" }

func (o *owners) ProcessesIdle(id ids.Alloc) bool { return !slices.Contains(o.alive, id) }

func (o *owners) Changed() <-chan struct{} { return nil }

// rig is a node whose agent is started again and again.
type rig struct {
	t      *testing.T
	dir    string
	boot   string
	owners owners
	subnet string
	store  *localstate.Store
	k      *keeper.Keeper

	plugins cni.Plugins
	maker   func(string) (driver.NetworkMaker, error)
}

func newRig(t *testing.T) *rig {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	r := &rig{t: t, dir: t.TempDir(), boot: "boot 1", subnet: network.DefaultSubnet}
	r.plugins = cni.Plugins{Path: []string{filepath.Join(r.dir, "bin")}, Dir: filepath.Join(r.dir, "conf")}
	t.Cleanup(r.unmount)
	r.start()
	t.Cleanup(func() {
		r.stop()
		r.nothingLeft()
	})
	return r
}

// unmount takes away what a test that failed has left.
func (r *rig) unmount() {
	held, err := filepath.Glob(filepath.Join(r.dir, "networks", "*", "netns"))
	if err != nil {
		r.t.Error(err)
	}
	for _, path := range held {
		if err := bridge.RemoveNamespace(path); err != nil {
			r.t.Error(err)
		}
	}
	if err := (&bridge.Bridge{Name: network.DefaultBridge, Owner: r.dir}).Remove(); err != nil {
		r.t.Error(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (r *rig) start() {
	r.t.Helper()
	var err error
	r.store, err = localstate.Open(filepath.Join(r.dir, "client"))
	must(r.t, err)
	v4, err := network.ParsePool(r.subnet, false)
	must(r.t, err)
	v6, err := network.ParsePool("fd00:be::/64", true)
	must(r.t, err)
	r.k, err = keeper.New(keeper.Config{
		DataDir: r.dir,
		Store:   r.store.KV,
		Boot:    r.boot,
		Bridge:  bridge.Bridge{Name: network.DefaultBridge, IPv4: v4, IPv6: v6},
		Plugins: r.plugins,
		Owners:  &r.owners,
		Maker:   r.maker,
		Log:     slog.New(slog.DiscardHandler),
	})
	must(r.t, err)
}

// stop is an orderly end of the agent.
func (r *rig) stop() {
	r.t.Helper()
	keeper.Leave(r.k)
	r.crash()
}

func (r *rig) crash() {
	r.t.Helper()
	must(r.t, r.store.Close())
}

// restart is a crash of the agent and its next run.
func (r *rig) restart() {
	r.t.Helper()
	r.crash()
	r.start()
}

// left names what is there of networks.
func (r *rig) left() (out []string) {
	r.t.Helper()
	links, err := netlink.LinkList()
	must(r.t, err)
	for _, l := range links {
		if strings.HasPrefix(l.Attrs().Name, "berth") {
			out = append(out, "link "+l.Attrs().Name)
		}
	}
	b := bridge.Bridge{Name: network.DefaultBridge}
	there, err := b.Applied()
	must(r.t, err)
	if there {
		out = append(out, "table")
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	must(r.t, err)
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, r.dir) {
			out = append(out, "mount "+strings.TrimSpace(line))
		}
	}
	dirs, err := filepath.Glob(filepath.Join(r.dir, "networks", "*"))
	must(r.t, err)
	return append(out, dirs...)
}

func (r *rig) nothingLeft() {
	r.t.Helper()
	if left := r.left(); len(left) > 0 {
		r.t.Errorf("left: %s", strings.Join(left, ", "))
	}
}

func want(mode string, port int) networks.Want {
	return networks.Want{Alloc: ids.Alloc(ids.New()), Mode: mode, Ports: []alloc.PortMapping{
		{Label: "http", Value: port, To: 80, HostIP: "192.0.2.1"},
	}}
}

var errCrash = errors.New("the agent is killed here")

// crashAt lets n steps be made and none after them.
func crashAt(k *keeper.Keeper, n int) (over func() bool) {
	made := 0
	k.Interrupt(func(string) error {
		if made++; made > n {
			return errCrash
		}
		return nil
	})
	return func() bool { return made <= n }
}

// TestAfterACrashAtAnyStepNothingIsLeftOrEverythingIsThere: of making and of releasing, for each mode. The alloc goes
// on, or it has gone meanwhile; the machine was restarted, or not.
func TestAfterACrashAtAnyStepNothingIsLeftOrEverythingIsThere(t *testing.T) {
	for _, mode := range []string{network.ModeBridge, network.ModeNone} {
		for _, goes := range []bool{false, true} {
			for n, done := 0, false; !done && !t.Failed(); n++ {
				t.Run(fmt.Sprintf("%s/goes=%v/making/%d", mode, goes, n), func(t *testing.T) {
					r := newRig(t)
					w := want(mode, 8080)
					over := crashAt(r.k, n)
					_, err := r.k.Make(t.Context(), w)
					if done = over(); done != (err == nil) || err != nil && !errors.Is(err, errCrash) {
						t.Fatal(err)
					}
					r.restart()
					if !goes {
						r.owners.known = []ids.Alloc{w.Alloc}
						if keeper.Sweep(r.k, t.Context()) {
							t.Error("what an alloc wants is undecided")
						}
						r.works(w)
						must(t, r.k.Release(r.t.Context(), w.Alloc))
						return
					}
					if keeper.Sweep(r.k, t.Context()) {
						t.Error("it is not decided that nobody wants it")
					}
				})
			}
		}
		for n, done := 0, false; !done && !t.Failed(); n++ {
			t.Run(fmt.Sprintf("%s/releasing/%d", mode, n), func(t *testing.T) {
				r := newRig(t)
				w := want(mode, 8080)
				_, err := r.k.Make(t.Context(), w)
				must(t, err)
				over := crashAt(r.k, n)
				err = r.k.Release(r.t.Context(), w.Alloc)
				if done = over(); done != (err == nil) || err != nil && !errors.Is(err, errCrash) {
					t.Fatal(err)
				}
				r.restart()
				r.owners.known = []ids.Alloc{w.Alloc}
				keeper.Sweep(r.k, t.Context())
				must(t, r.k.Release(r.t.Context(), w.Alloc)) // its runner comes here again
			})
		}
	}
}

// TestTheBridgeWaitsAWhileForTheNextAlloc: it stays when the last alloc has gone, and no port leads to that any more;
// the next one finds it, with a table that others have removed meanwhile. After a while without allocs it is taken
// down, by the run of the agent that follows a crash at once, and by one that ends in order.
func TestTheBridgeWaitsAWhileForTheNextAlloc(t *testing.T) {
	r := newRig(t)
	visit := func(ports ...alloc.PortMapping) int {
		t.Helper()
		w := want(network.ModeBridge, 8080)
		w.Ports = ports
		r.works(w)
		must(t, r.k.Release(t.Context(), w.Alloc))
		keeper.Sweep(r.k, t.Context())
		if got := r.left(); len(got) != 2 {
			t.Fatalf("without allocs there is %v", got)
		}
		l, err := netlink.LinkByName(network.DefaultBridge)
		must(t, err)
		return l.Attrs().Index
	}
	first := visit(want(network.ModeBridge, 8080).Ports...)
	if n := elements(t); n != 0 {
		t.Errorf("%d ports lead to an alloc that is gone", n)
	}
	flush(t)
	if again := visit(); again != first {
		t.Error("the bridge was made anew")
	}
	keeper.Age(r.k)
	keeper.Sweep(r.k, t.Context())
	r.nothingLeft()
	visit()
	r.restart()
	keeper.Sweep(r.k, t.Context())
	r.nothingLeft()
	visit()
	r.stop()
	r.nothingLeft()
	r.start()
}

// flush removes the table, as somebody does who flushes all tables.
func flush(t *testing.T) {
	t.Helper()
	conn, err := nftables.New()
	must(t, err)
	conn.FlushRuleset()
	must(t, conn.Flush())
}

// elements counts the ports in the table's map.
func elements(t *testing.T) int {
	t.Helper()
	conn, err := nftables.New()
	must(t, err)
	table := &nftables.Table{Name: network.DefaultBridge, Family: nftables.TableFamilyINet}
	all, err := conn.GetSetElements(&nftables.Set{Table: table, Name: "ports"})
	must(t, err)
	return len(all)
}

// works makes the network again and says whether all of it is there.
func (r *rig) works(w networks.Want) *networks.Made {
	r.t.Helper()
	made, err := r.k.Make(r.t.Context(), w)
	must(r.t, err)
	if there, err := bridge.IsNamespace(made.Network.Namespace); err != nil || !there {
		r.t.Fatalf("its namespace is not there: %v", err)
	}
	if w.Mode != network.ModeBridge {
		return made
	}
	addrs, err := bridge.Addresses(made.Network.Namespace)
	must(r.t, err)
	var texts []string
	for _, a := range addrs {
		texts = append(texts, a.String())
	}
	if !slices.Contains(texts, made.Status.Address) || !slices.Contains(texts, made.Status.IPv6) {
		r.t.Errorf("the namespace has %v, the status says %+v", texts, made.Status)
	}
	if l, err := netlink.LinkByName(network.Link(w.Alloc)); err != nil || l.Attrs().MasterIndex == 0 {
		r.t.Errorf("its link: %v", err)
	}
	b := bridge.Bridge{Name: network.DefaultBridge}
	if there, err := b.Applied(); err != nil || !there {
		r.t.Errorf("the table is not there: %v", err)
	}
	return made
}

// TestARestartKeepsWhatThereIs: the namespace is the same one, with the same addresses.
func TestARestartKeepsWhatThereIs(t *testing.T) {
	r := newRig(t)
	w := want(network.ModeBridge, 8080)
	r.owners.known = []ids.Alloc{w.Alloc}
	made := r.works(w)
	before, err := os.Stat(made.Network.Namespace)
	must(t, err)
	r.restart()
	keeper.Sweep(r.k, t.Context())
	again := r.works(w)
	after, err := os.Stat(again.Network.Namespace)
	must(t, err)
	if !os.SameFile(before, after) || made.Status.Address != again.Status.Address || len(again.Warnings) > 0 {
		t.Errorf("after a restart it is another one: %+v, before %+v", again, made)
	}
	must(t, r.k.Release(r.t.Context(), w.Alloc))
}

// TestAfterARebootItIsMadeAnew with the addresses of before, and nobody is warned of tasks that there are none of.
func TestAfterARebootItIsMadeAnew(t *testing.T) {
	r := newRig(t)
	w := want(network.ModeBridge, 8080)
	made := r.works(w)
	must(t, bridge.RemoveNamespace(made.Network.Namespace)) // the kernel forgets all of it
	must(t, (&bridge.Bridge{Owner: r.dir}).Disconnect(network.Link(w.Alloc)))
	must(t, (&bridge.Bridge{Name: network.DefaultBridge, Owner: r.dir}).Remove())
	r.boot = "boot 2"
	r.restart()
	again := r.works(w)
	if made.Status.Address != again.Status.Address || len(again.Warnings) > 0 {
		t.Errorf("it is %+v, was %+v", again, made)
	}
	must(t, bridge.RemoveNamespace(made.Network.Namespace)) // and now somebody takes it away
	if again = r.works(w); len(again.Warnings) != 1 {
		t.Errorf("nobody hears that the namespace was gone: %v", again.Warnings)
	}
	must(t, r.k.Release(r.t.Context(), w.Alloc))
}

// TestWhatNoRecordKnowsIsKeptWhileProcessesLive, and its addresses are given to nobody else.
func TestWhatNoRecordKnowsIsKeptWhileProcessesLive(t *testing.T) {
	r := newRig(t)
	r.subnet = "172.26.64.0/29" // five addresses
	r.restart()
	w := want(network.ModeBridge, 8080)
	made := r.works(w)
	r.crash()
	must(t, os.RemoveAll(filepath.Join(r.dir, "client")))
	r.owners.alive = []ids.Alloc{w.Alloc}
	r.start()
	if !keeper.Sweep(r.k, t.Context()) {
		t.Error("it is decided although a process lives")
	}
	var others []ids.Alloc
	for range 4 {
		o := want(network.ModeBridge, 0)
		others = append(others, o.Alloc)
		if got := r.works(o); got.Status.Address == made.Status.Address {
			t.Errorf("%s is given twice", got.Status.Address)
		}
	}
	o := want(network.ModeBridge, 0)
	_, err := r.k.Make(t.Context(), o)
	const full = `bridge "berth": take an address of subnet 172.26.64.0/29`
	if !fault.Has(err, fault.Exhausted) || !strings.Contains(err.Error(), full) ||
		!strings.Contains(err.Error(), "5 addresses") {
		t.Errorf("a full subnet: %v", err)
	}
	r.owners.alive, r.owners.known = nil, others
	if keeper.Sweep(r.k, t.Context()) {
		t.Error("it is not decided although no process lives")
	}
	if _, err := os.Stat(made.Network.Namespace); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the namespace is left: %v", err)
	}
	for _, id := range others {
		must(t, r.k.Release(r.t.Context(), id))
	}
}

// TestWhatOthersTakeAwayIsMadeAgain: the table, the bridge with all links.
func TestWhatOthersTakeAwayIsMadeAgain(t *testing.T) {
	r := newRig(t)
	w := want(network.ModeBridge, 8080)
	r.works(w)
	b := bridge.Bridge{Name: network.DefaultBridge, Owner: r.dir}
	must(t, b.Remove())
	keeper.Verify(r.k)
	if there, err := b.Whole(); err != nil || !there {
		t.Fatalf("bridge and table: %v, %v", there, err)
	}
	r.works(w)
	must(t, r.k.Release(r.t.Context(), w.Alloc))
}

// TestTheFilesOfEtcSayWhatTheGroupAsksFor.
func TestTheFilesOfEtcSayWhatTheGroupAsksFor(t *testing.T) {
	r := newRig(t)
	w := want(network.ModeBridge, 8080)
	w.Hostname = "web.example"
	w.DNS = &job.DNS{Servers: []string{"192.0.2.53"}, Searches: []string{"example"}, Options: []string{"ndots:2"}}
	made := r.works(w)
	got := map[string]string{}
	for _, f := range made.Network.Files {
		b, err := os.ReadFile(f.Source)
		must(t, err)
		if !f.ReadOnly {
			t.Errorf("%s can be written", f.Target)
		}
		got[f.Target] = string(b)
	}
	for file, line := range map[string]string{
		"/etc/hosts":       made.Status.Address + " web.example web\n",
		"/etc/hostname":    "web.example\n",
		"/etc/resolv.conf": "nameserver 192.0.2.53\nsearch example\noptions ndots:2\n",
	} {
		if !strings.Contains(got[file], line) {
			t.Errorf("%s has no %q:\n%s", file, line, got[file])
		}
	}
	must(t, r.k.Release(r.t.Context(), w.Alloc))
}

// BenchmarkMake is what a network adds to the start of an alloc: of the first on a node, which makes the bridge too,
// and of one more beside others.
func BenchmarkMake(b *testing.B) {
	for _, others := range []int{0, 1, 200} {
		b.Run(fmt.Sprintf("beside %d", others), func(b *testing.B) {
			r := benchRig(b)
			var all []ids.Alloc
			for i := range others {
				w := want(network.ModeBridge, 10000+i)
				if _, err := r.Make(b.Context(), w); err != nil {
					b.Fatal(err)
				}
				all = append(all, w.Alloc)
			}
			for b.Loop() {
				w := want(network.ModeBridge, 8080)
				if _, err := r.Make(b.Context(), w); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := r.Release(b.Context(), w.Alloc); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			for _, id := range all {
				if err := r.Release(b.Context(), id); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func benchRig(b *testing.B) *keeper.Keeper {
	b.Helper()
	if os.Geteuid() != 0 {
		b.Skip("network namespaces need root")
	}
	dir := b.TempDir()
	store, err := localstate.Open(filepath.Join(dir, "client"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := store.Close(); err != nil {
			b.Error(err)
		}
	})
	v4, err := network.ParsePool(network.DefaultSubnet, false)
	if err != nil {
		b.Fatal(err)
	}
	k, err := keeper.New(keeper.Config{
		DataDir: dir,
		Store:   store.KV,
		Boot:    "boot",
		Bridge:  bridge.Bridge{Name: network.DefaultBridge, IPv4: v4},
		Owners:  &owners{},
		Log:     slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { keeper.Leave(k) })
	return k
}

// TestAPortOfTheNodesOwnProgramsIsNotTaken: a job that asks for a port at which a program of the node listens, by TCP
// or UDP, at that address or at all, is refused and leaves nothing; it gets the port when nobody listens. What an alloc
// has it keeps, whoever listens there afterwards.
func TestAPortOfTheNodesOwnProgramsIsNotTaken(t *testing.T) {
	r := newRig(t)
	lo, err := netlink.LinkByName("lo")
	must(t, err)
	must(t, netlink.LinkSetUp(lo))
	w := want(network.ModeBridge, 8080)
	r.owners.known = []ids.Alloc{w.Alloc}
	for _, at := range []string{"tcp 127.0.0.1:8080", "tcp :8080", "tcp4 0.0.0.0:8080", "udp 127.0.0.1:8080",
		"udp :8080"} {
		kind, address, _ := strings.Cut(at, " ")
		var held interface{ Close() error }
		var err error
		if kind == "udp" {
			held, err = net.ListenPacket(kind, address)
		} else {
			held, err = net.Listen(kind, address)
		}
		must(t, err)
		_, err = r.k.Make(t.Context(), w)
		const why = "port 8080 at 127.0.0.1: a program of the node uses it"
		if !fault.Has(err, fault.Denied) || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", at, err)
		}
		r.nothingLeft()
		must(t, held.Close())
	}
	r.works(w)
	late, err := net.Listen("tcp", "127.0.0.1:8080")
	must(t, err)
	r.works(w)
	r.restart()
	r.works(w)
	must(t, late.Close())
	must(t, r.k.Release(r.t.Context(), w.Alloc))
}

// TestALinkThatIsRemovedIsMadeAgain: as soon as the kernel says so, with its address, for each alloc that lost
// its own; a network that is released stays gone.
func TestALinkThatIsRemovedIsMadeAgain(t *testing.T) {
	r := newRig(t)
	a, b := want(network.ModeBridge, 8080), want(network.ModeBridge, 8081)
	r.owners.known = []ids.Alloc{a.Alloc, b.Alloc}
	made := r.works(a)
	r.works(b)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.k.Run(ctx) }()
	remove := func() int {
		l, err := netlink.LinkByName(network.Link(a.Alloc))
		must(t, err)
		must(t, netlink.LinkDel(l))
		return l.Attrs().Index
	}
	for range 3 {
		was := remove()
		for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			l, err := netlink.LinkByName(network.Link(a.Alloc))
			if err == nil && l.Attrs().Index != was && l.Attrs().MasterIndex != 0 {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("it is not made again: %v", err)
			}
		}
		r.works(a)
		if addrs, err := bridge.Addresses(made.Network.Namespace); err != nil || len(addrs) != 2 {
			t.Errorf("it has %v, %v", addrs, err)
		}
	}
	for _, w := range []networks.Want{a, b} {
		must(t, r.k.Release(t.Context(), w.Alloc))
	}
	cancel()
	must(t, <-done)
}
