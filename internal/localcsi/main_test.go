package localcsi

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"berth/internal/base/volumestore"
	"berth/internal/localcsi/datadir"
	"berth/internal/localcsi/loop"
	"berth/internal/localcsi/mount"
	"berth/internal/localcsi/store"
	"berth/internal/localcsi/watchdog"
	"berth/internal/testkit/mountns"
)

const testNode = "node-a"

// world is a plugin in this process, with directories as a caller gives them.
type world struct {
	t      testing.TB
	cfg    Config
	base   string
	cancel context.CancelFunc
	done   chan error
	conn   *grpc.ClientConn
	ctl    csi.ControllerClient
	node   csi.NodeClient
}

func needRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("loop devices and mounts need root")
	}
}

// newWorld prepares a data directory beneath dir (a fresh one if empty) and starts the plugin.
func newWorld(t testing.TB, dir string, tune func(*Config)) *world {
	t.Helper()
	needRoot(t)
	base := t.TempDir()
	if dir == "" {
		dir = filepath.Join(base, "data")
	}
	w := &world{t: t, base: base, cfg: Config{
		Endpoint: "unix://" + filepath.Join(base, "csi.sock"), DataDir: dir, NodeID: testNode, Log: testLog(),
	}}
	if tune != nil {
		tune(&w.cfg)
	}
	t.Cleanup(w.cleanUp)
	w.start()
	return w
}

func testLog() *slog.Logger {
	if !testing.Verbose() {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func (w *world) start() {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel, w.done = cancel, make(chan error, 1)
	go func() { w.done <- Run(ctx, w.cfg) }()
	w.connect()
}

func (w *world) connect() {
	w.t.Helper()
	w.dial()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := csi.NewIdentityClient(w.conn).Probe(ctx, &csi.ProbeRequest{}, grpc.WaitForReady(true)); err != nil {
		select {
		case err := <-w.done:
			w.done <- nil // who stops it need not wait
			w.t.Fatalf("the plugin ended: %v", err)
		default:
			w.t.Fatalf("probe: %v", err)
		}
	}
}

func (w *world) dial() {
	w.t.Helper()
	conn, err := grpc.NewClient(w.cfg.Endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("localhost"))
	if err != nil {
		w.t.Fatal(err)
	}
	w.conn = conn
	w.ctl = csi.NewControllerClient(conn)
	w.node = csi.NewNodeClient(conn)
}

func (w *world) stop() {
	w.t.Helper()
	if w.cancel == nil {
		return
	}
	w.conn.Close()
	w.cancel()
	w.cancel = nil
	if err := <-w.done; err != nil {
		w.t.Errorf("the plugin ended badly: %v", err)
	}
}

func (w *world) restart() {
	w.t.Helper()
	w.stop()
	w.start()
}

// cleanUp stops the plugin, reports what it left behind, and removes it.
func (w *world) cleanUp() {
	w.stop()
	for _, leak := range w.sweep() {
		if !w.t.Failed() {
			w.t.Errorf("left behind: %s", leak)
		}
	}
}

// sweep lists and removes mounts and loop devices of this world.
func (w *world) sweep() (found []string) {
	table, err := mount.LoopTable(loop.Major)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, points := range table {
		for _, at := range points {
			if strings.HasPrefix(at.Path, w.base+"/") && at.Path != w.cfg.DataDir {
				if is, _ := mount.IsPoint(at.Path); is && !isStore(at.Path) {
					found = append(found, "mount "+at.Path)
					if err := unix.Unmount(at.Path, unix.MNT_DETACH); err != nil {
						w.t.Error(err)
					}
				}
			}
		}
	}
	for _, d := range w.ourLoops() {
		found = append(found, "loop device "+loop.Path(d.Number))
		if err := loop.Clear(d.Number); err != nil {
			w.t.Error(err)
		}
	}
	return found
}

// isStore marks the mount on which a test keeps a data directory.
func isStore(path string) bool { return filepath.Base(path) == "store" }

func (w *world) ourLoops() (out []loop.Info) {
	var at volumestore.Identity
	if err := store.ReadJSON(filepath.Join(w.cfg.DataDir, datadir.IdentityFile), &at); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		w.t.Fatal(err)
	}
	all, err := loop.List()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, d := range all {
		if strings.HasPrefix(d.Label, "berth/"+at.Instance+"/") {
			out = append(out, d)
		}
	}
	return out
}

func TestMain(m *testing.M) {
	if os.Args[0] == watchdog.Role {
		os.Exit(watchdog.Main())
	}
	if text := os.Getenv(childEnv); text != "" {
		if err := runChild(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// Every test has a plugin, directories and devices of its own, and mostly waits for programs and disks.
	flag.Parse()
	if at := flag.Lookup("test.parallel"); at.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		if err := at.Value.Set("6"); err != nil {
			panic(err)
		}
	}
	mountns.Main(m.Run)
}
