// Package powerloss gives a test a disk that may lose its power. The disk is a file system of a process of its own
// (FUSE), so that a test uses it like any other; it keeps what was synced apart from what was not (package disk), and
// draws what would be left at moments that it picks by a seed, while the test works on. Afterwards the test has each
// of these images written out, opens its store there, and looks whether everything is in it that was told to be.
//
// Only tests import it.
package powerloss

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var (
	all  = flag.Bool("powerloss-all", false, "cut the power at every point, instead of at some")
	seed = flag.Uint64("powerloss-seed", 3, "where the power is cut, and what of the rest is there")
)

// Flags hand this program's choice of cuts to another test program.
func Flags() []string {
	return []string{fmt.Sprintf("-powerloss-all=%t", *all), fmt.Sprintf("-powerloss-seed=%d", *seed)}
}

// Config says what a disk does.
type Config struct {
	// Dir is the empty directory on which it is mounted; one of the test's own unless given.
	Dir string
	// Cuts is at how many points the power is cut; 0: at every one.
	Cuts int
	// Draws is how often what is left is drawn at a point; once unless given.
	Draws int
	// Most takes the place of Cuts with -powerloss-all.
	Most int
	// Delay is the longest time that a sync takes.
	Delay time.Duration
}

// Disk is a mounted disk.
type Disk struct {
	t   testing.TB
	Dir string

	mu   sync.Mutex
	in   io.WriteCloser
	out  *json.Decoder
	done bool
}

// Cut is a moment at which the power failed.
type Cut struct {
	N     int    // of the point, counted from the first
	Draw  int    // counted from the first, too
	Point string // what was to come next
	Acked int    // how often Ack was called before
	Rest  string // what was made of what was not synced
	disk  *Disk
}

func (c Cut) String() string {
	return fmt.Sprintf("cut %d, before the %s, %s (%d acknowledged)", c.N, c.Point, c.Rest, c.Acked)
}

// Mount mounts an empty disk until the test ends.
func Mount(t testing.TB, cfg Config) *Disk {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting a disk needs root")
	}
	if *all {
		cfg.Cuts = cfg.Most
	}
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	d := &Disk{t: t, Dir: cfg.Dir}
	d.start(setup{
		Dir:   d.Dir,
		Seed:  *seed,
		Cuts:  cfg.Cuts,
		Draws: max(1, cfg.Draws),
		Delay: cfg.Delay,
	})
	t.Logf("repeat it with -powerloss-seed %d", *seed)
	return d
}

// start starts the process that is the disk: this program, which becomes it in become. In the test's own process a
// page of a mapped file that is not there yet could hold up who is to bring it.
func (d *Disk) start(s setup) {
	text, err := json.Marshal(s)
	d.must(err)
	self, err := os.Executable()
	d.must(err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), becomeEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	d.in, err = cmd.StdinPipe()
	d.must(err)
	out, err := cmd.StdoutPipe()
	d.must(err)
	d.out = json.NewDecoder(out)
	d.must(cmd.Start())
	d.t.Cleanup(func() {
		d.Unmount()
		d.in.Close()
		if err := cmd.Wait(); err != nil {
			d.t.Errorf("the disk: %v", err)
		}
	})
	var up answer
	d.must(d.out.Decode(&up))
}

// Unmount ends the use of the disk; its cuts can still be had.
func (d *Disk) Unmount() {
	d.t.Helper()
	if d.done {
		return
	}
	d.done = true
	if err := unix.Unmount(d.Dir, 0); err != nil {
		d.t.Errorf("unmount the disk: %v", err)
		if err := unix.Unmount(d.Dir, unix.MNT_DETACH); err != nil {
			d.t.Errorf("detach the disk: %v", err)
		}
	}
}

// Ack says that something was acknowledged to whoever asked for it: each later cut must leave it.
func (d *Disk) Ack() {
	d.t.Helper()
	d.ask(question{What: "ack"})
}

// Cuts are the moments that were picked, in their order, and at last the present one.
func (d *Disk) Cuts() []Cut {
	d.t.Helper()
	cuts := d.ask(question{What: "cuts"}).Cuts
	if len(cuts) < 2 {
		d.t.Fatal("nothing was written to the disk: there is no point to cut at")
	}
	for i := range cuts {
		cuts[i].disk = d
	}
	return cuts
}

// Write writes what the cut left to an empty directory.
func (c Cut) Write(dir string) {
	c.disk.t.Helper()
	c.disk.ask(question{What: "write", Draw: c.Draw, Dir: dir})
}

// Each writes out what each cut left, one after the other, and has it looked at. A disk that is not mounted any more is
// written where it was: paths that a store has kept mean the same there.
func (d *Disk) Each(look func(t *testing.T, c Cut, dir string)) {
	d.t.Helper()
	t, ok := d.t.(*testing.T)
	if !ok {
		d.t.Fatal("cuts are looked at in tests alone")
	}
	for _, c := range d.Cuts() {
		t.Run(fmt.Sprint(c.N), func(t *testing.T) {
			dir := d.Dir
			if d.done {
				empty(t, dir)
			} else {
				dir = t.TempDir()
			}
			c.Write(dir)
			defer func() {
				if t.Failed() {
					t.Logf("%s\n%s", c, listing(dir))
				}
			}()
			look(t, c, dir)
		})
	}
}

// empty removes what is in a directory, now and when the test ends.
func empty(t *testing.T, dir string) {
	t.Helper()
	remove := func() {
		all, err := os.ReadDir(dir)
		for _, e := range all {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
		if err != nil {
			t.Error(err)
		}
	}
	remove()
	t.Cleanup(remove)
}

// listing shows what there is, for people.
func listing(dir string) string {
	var b strings.Builder
	_ = filepath.Walk(dir, func(path string, st os.FileInfo, err error) error {
		if err != nil {
			fmt.Fprintln(&b, err)
			return nil
		}
		fmt.Fprintf(&b, "%s %8d %s\n", st.Mode(), st.Size(), strings.TrimPrefix(path, dir))
		return nil
	})
	return b.String()
}

func (d *Disk) ask(q question) answer {
	d.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	var a answer
	d.must(json.NewEncoder(d.in).Encode(q))
	d.must(d.out.Decode(&a))
	if a.Err != "" {
		d.t.Fatalf("the disk: %s", a.Err)
	}
	return a
}

func (d *Disk) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatalf("the disk: %v", err)
	}
}
