package csitest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/sys/mountinfo"

	"berth/internal/base/ids"
	"berth/internal/conformance/csi/oracle"
	"berth/internal/conformance/csi/proxy"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
)

// Mounter is the orchestrator's side of a node: what stages and publishes for allocs. It connects to the plugin's
// socket by itself, again and again, for plugins die.
type Mounter interface {
	// Mount stages and publishes for an alloc and returns the path on the host when the mount table shows it. It tries
	// until ctx ends.
	Mount(ctx context.Context, use Use) (path string, err error)
	// Unmount takes the alloc's publication away, and the staging with the last. It tries until ctx ends.
	Unmount(ctx context.Context, use Use) error
	// Settle returns when all that was done is durable. It tries until ctx ends.
	Settle(ctx context.Context) error
	// Restart forgets everything that a SIGKILL would take and comes back with what is durable.
	Restart(ctx context.Context) error
	// Root is the directory beneath which all its staging and target paths lie.
	Root() string
}

// Use is one alloc's use of a volume.
type Use struct {
	Volume     csi.Volume
	Alloc      ids.Alloc
	Capability csi.VolumeCapability
	ReadOnly   bool
}

// suiteTimeout bounds one wait of a scenario: several pauses of a back-off that begins at half a second.
const suiteTimeout = 30 * time.Second

// stageRPCs are the calls of a node's ladder.
var stageRPCs = []string{"NodeStage", "NodePublish", "NodeUnpublish", "NodeUnstage"}

// Suite runs an orchestrator's side against a plugin that loses answers, dies and lies, and lets the oracle judge each
// scenario. It needs root, for it mounts.
func Suite(t *testing.T, start func(t testing.TB, p *Plugin) Mounter) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.play(t, suiteTimeout, start)
		})
	}
}

// scenario is one story of the suite.
type scenario struct {
	name  string
	rules []string
	story func(x *stage)
}

// stage is what a scenario plays on.
type stage struct {
	t testing.TB
	p *Plugin
	m Mounter
	v csi.Volume

	patience time.Duration // how long one wait may take

	mu   sync.Mutex
	used map[string]string // the targets that an alloc's process uses, from Mount's answer to the call of Unmount
}

// Witness implements World: the story is the process that uses what is mounted.
func (x *stage) Witness(begin proxy.Entry) *proxy.Observation {
	x.mu.Lock()
	defer x.mu.Unlock()
	seen := &proxy.Observation{Living: []string{}}
	if alloc, used := x.used[begin.Target]; used {
		seen.Living = append(seen.Living, "alloc "+alloc)
	}
	return seen
}

// Facts implements World.
func (x *stage) Facts(p *Plugin) oracle.Facts {
	const servers = "the suite plays a node without servers"
	strays, err := Beneath(x.m.Root(), func(name string) bool { return name == "data" })
	if err != nil {
		x.t.Error(err)
	}
	return oracle.Facts{
		Processes: oracle.Witnessed(),
		Holders:   oracle.Nobody(servers + ", and deletes no volume"),
		Writers:   oracle.Nobody("there is one node"),
		Tasks:     oracle.Feed[oracle.TaskStart](),
		Shown:     oracle.None[oracle.Shown](servers),
		Works:     oracle.None[oracle.Work]("the suite has one volume: none could be held up by another"),
		Secrets:   oracle.None[string]("the suite's volume has no secrets"),
		Texts:     oracle.None[oracle.Text]("without secrets none can show"),
		Strays:    oracle.Feed(strays...),
		Ends:      oracle.None[oracle.End]("the suite ends its allocs itself"),
		Obeyed:    oracle.None[oracle.Obeyed](servers),
		Quiet:     oracle.Feed[oracle.Quiet](),
		Provider:  oracle.Feed(p.Provider()...),
		Records:   oracle.Feed(oracle.Record{ID: x.v.ID, Name: "suite"}),
	}
}

func (s scenario) play(t testing.TB, patience time.Duration, start func(testing.TB, *Plugin) Mounter) {
	t.Helper()
	x := &stage{t: t, patience: patience, used: map[string]string{}}
	p := New(t, Options{
		World: x,
		Rules: s.rules,
		Fake:  Fake{Mount: MountBind, Controller: csi.Caps[csi.ControllerCap]{csi.CapCreateDelete}},
	})
	c, err := csi.Dial(t.Context(), p.Socket, csi.Options{Plugin: p.ID})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Negotiate(t.Context(), csi.RoleController); err != nil {
		t.Fatal(err)
	}
	v, err := c.CreateVolume(t.Context(),
		csi.CreateVolumeRequest{Name: "suite", Capabilities: []csi.VolumeCapability{shared}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	x.p, x.v = p, v
	x.m = start(t, p)
	s.story(x)
	x.atRest()
}

var shared = csi.VolumeCapability{AccessMode: volume.MultiNodeMultiWriter, AttachmentMode: volume.FileSystem}

func (x *stage) use(alloc string) Use {
	return Use{Volume: x.v, Alloc: ids.Alloc(alloc), Capability: shared}
}

// mount mounts and makes sure that it is true.
func (x *stage) mount(alloc string) string {
	x.t.Helper()
	ctx, cancel := context.WithTimeout(x.t.Context(), x.patience)
	defer cancel()
	path, err := x.m.Mount(ctx, x.use(alloc))
	if err != nil {
		x.t.Fatal(fmt.Errorf("mount for %s: %w", alloc, err))
	}
	mounted, err := mountinfo.Mounted(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		x.t.Fatal(err)
	}
	start := oracle.TaskStart{At: time.Now(), Target: path, Mounted: mounted}
	x.p.Tell(func(f *oracle.Facts) { f.Tasks.Add(start) })
	x.mu.Lock()
	x.used[path] = alloc
	x.mu.Unlock()
	if !mounted {
		x.t.Fatalf("%s is said to be mounted, the mount table does not have it", path)
	}
	return path
}

func (x *stage) unmount(alloc string) {
	x.t.Helper()
	x.mu.Lock()
	maps.DeleteFunc(x.used, func(_, by string) bool { return by == alloc })
	x.mu.Unlock()
	ctx, cancel := context.WithTimeout(x.t.Context(), x.patience)
	defer cancel()
	if err := x.m.Unmount(ctx, x.use(alloc)); err != nil {
		x.t.Fatal(fmt.Errorf("unmount for %s: %w", alloc, err))
	}
}

// settle waits until the orchestrator's side has written down what it did.
func (x *stage) settle() {
	x.t.Helper()
	ctx, cancel := context.WithTimeout(x.t.Context(), x.patience)
	defer cancel()
	if err := x.m.Settle(ctx); err != nil {
		x.t.Fatal(err)
	}
}

// restart is a SIGKILL of the orchestrator's side.
func (x *stage) restart() {
	x.t.Helper()
	x.p.Mark(proxy.CallerCrashed, proxy.Entry{})
	if err := x.m.Restart(x.t.Context()); err != nil {
		x.t.Fatal(err)
	}
}

// atRest waits until nothing is staged any more and tells the oracle what is left in the mount table.
func (x *stage) atRest() {
	x.t.Helper()
	deadline := time.Now().Add(x.patience)
	for {
		mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(x.m.Root()))
		if err != nil {
			x.t.Fatal(err)
		}
		if ups, downs := x.count("NodeStageVolume"),
			x.count("NodeUnstageVolume"); len(mounts) == 0 && downs > 0 && ups > 0 || time.Now().After(deadline) {
			rest := oracle.Rest{}
			for _, m := range mounts {
				rest.Mounts = append(rest.Mounts, m.Mountpoint)
			}
			x.p.Tell(func(f *oracle.Facts) { f.Rest = oracle.Feed(rest) })
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// count tells how often a call has succeeded.
func (x *stage) count(rpc string) (n int) {
	for _, c := range x.p.Calls() {
		if c == rpc {
			n++
		}
	}
	return n
}

func (x *stage) write(path, text string) {
	x.t.Helper()
	if err := os.WriteFile(filepath.Join(path, "data"), []byte(text), 0o600); err != nil {
		x.t.Fatal(err)
	}
}

func (x *stage) read(path, want string) {
	x.t.Helper()
	b, err := os.ReadFile(filepath.Join(path, "data"))
	if err != nil {
		x.t.Error(err)
	} else if string(b) != want {
		x.t.Errorf("data = %q, want %q", b, want)
	}
}

func upAndDown(x *stage) {
	x.write(x.mount("a"), "1")
	x.unmount("a")
}

func scenarios() []scenario {
	out := []scenario{
		{"DataOutlivesItsAlloc", nil, func(x *stage) {
			upAndDown(x)
			x.read(x.mount("b"), "1")
			x.unmount("b")
		}},
		{"TwoAllocsOneStaging", nil, twoAllocs},
		{"RestartInQuietChangesNothing", nil, quietRestart},
		{"RestartInTheMiddleOfACall", []string{"(NodeStage * delay 1s once)"}, restartInACall},
		{"OKWithoutEffectIsNotBelieved", []string{"(NodePublish * ok-without-effect once)"}, upAndDown},
		{"AbortedIsRepeated", []string{"(NodeStage * before Aborted x3)"}, upAndDown},
		{"UnstageWaitsForUnpublish", []string{"(NodeUnpublish * before Internal x2)"}, func(x *stage) {
			upAndDown(x)
			calls := x.p.Calls()
			if slices.Index(calls, "NodeUnstageVolume") < slices.Index(calls, "NodeUnpublishVolume") {
				x.t.Errorf("unstaged before the publication was gone: %v", calls)
			}
		}},
		{"NotFoundIsNotSuccess", []string{"(NodeUnpublish * before NotFound once)"}, func(x *stage) {
			upAndDown(x)
			if x.count("NodeUnpublishVolume") == 0 {
				x.t.Errorf("NOT_FOUND was taken for success: %v", x.p.Calls())
			}
		}},
	}
	for _, rpc := range stageRPCs {
		for _, fault := range []string{"after-effect DeadlineExceeded once", "before Unavailable once",
			"crash-before once", "crash-after once", "drop-socket once"} {
			out = append(out,
				scenario{rpc + "_" + strings.ReplaceAll(fault, " ", "_"), []string{"(" + rpc + " * " + fault + ")"},
					upAndDown})
		}
	}
	return out
}

func twoAllocs(x *stage) {
	a, b := x.mount("a"), x.mount("b")
	x.write(a, "from a")
	if a == b {
		x.t.Errorf("two allocs share the target %s", a)
	}
	if n := x.count("NodeStageVolume"); n != 1 {
		x.t.Errorf("staged %d times", n)
	}
	x.unmount("a")
	if n := x.count("NodeUnstageVolume"); n != 0 {
		x.t.Error("unstaged under another alloc")
	}
	x.read(b, "from a")
	x.unmount("b")
}

func quietRestart(x *stage) {
	path := x.mount("a")
	x.write(path, "1")
	x.settle() // a call whose result is not durable may be made again
	from := time.Now()
	x.restart()
	if again := x.mount("a"); again != path {
		x.t.Errorf("after the restart the volume is at %s, before at %s", again, path)
	}
	to := time.Now()
	x.p.Tell(func(f *oracle.Facts) { f.Quiet.Add(oracle.Quiet{From: from, To: to}) })
	x.read(path, "1")
	x.unmount("a")
}

func restartInACall(x *stage) {
	ctx, cancel := context.WithTimeout(x.t.Context(), 200*time.Millisecond) // runs out while the plugin stages
	defer cancel()
	if path, err := x.m.Mount(ctx, x.use("a")); err == nil {
		x.t.Errorf("mounted at %s while the plugin was still staging", path)
	}
	x.restart()
	x.mount("a")
	x.unmount("a")
}
