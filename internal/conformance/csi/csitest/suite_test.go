package csitest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/sys/mountinfo"
	"google.golang.org/grpc/codes"

	"berth/internal/base/ids"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
)

// reference is the smallest keeper that obeys the rules: what it must not forget is written down before each call.
// Its sloppiness can be turned on, to see that the suite finds it.
type reference struct {
	t      testing.TB
	socket string
	root   string

	mu     sync.Mutex // one lane: one volume
	client *csi.Client
	staged string            // durable: absent "", uncertain or present
	spots  map[string]string // durable: by target
	volume string            // the only one

	believes  bool // sloppy: takes OK for a mount
	forgets   bool // sloppy: an unclear end is taken for a failure
	unguarded bool // sloppy: unstages with the first alloc that goes
	impatient bool // sloppy: repeats at once
	amnesiac  bool // sloppy: a restart forgets everything
	tidy      bool // sloppy: a restart takes everything away
}

func newReference(t testing.TB, p *Plugin) *reference {
	r := &reference{
		t:      t,
		socket: p.Socket,
		root:   filepath.Join(filepath.Dir(p.Socket), "k"),
		spots:  map[string]string{},
	}
	if err := os.MkdirAll(filepath.Join(r.root, "s"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if r.client != nil {
			_ = r.client.Close()
		}
	})
	return r
}

func (r *reference) Root() string { return r.root }

// Settle: what it does is durable at once.
func (r *reference) Settle(context.Context) error { return nil }

func (r *reference) Restart(ctx context.Context) error {
	if r.client != nil {
		_ = r.client.Close() // a SIGKILL closes its sockets
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.client = nil
	for target := range r.spots {
		if c, err := r.plugin(ctx); r.tidy && err == nil {
			_ = c.Unpublish(ctx, csi.UnpublishRequest{VolumeID: r.volume, TargetPath: target})
			delete(r.spots, target)
		}
	}
	if r.amnesiac {
		r.staged, r.spots = "", map[string]string{}
	}
	return nil
}

// plugin returns a negotiated client, a new one after each end.
func (r *reference) plugin(ctx context.Context) (*csi.Client, error) {
	if r.client != nil {
		select {
		case <-r.client.Lost():
			_ = r.client.Close()
			r.client = nil
		default:
			return r.client, nil
		}
	}
	c, err := csi.Dial(ctx, r.socket, csi.Options{Plugin: "fake"})
	if err != nil {
		return nil, err
	}
	if _, err := c.Negotiate(ctx, csi.RoleNode); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	r.client = c
	return c, nil
}

// step repeats one call with a growing pause until it is done or ctx ends.
func (r *reference) step(ctx context.Context, fn func(*csi.Client) error) error {
	pause := 50 * time.Millisecond
	for {
		c, err := r.plugin(ctx)
		if err == nil {
			if err = fn(c); err == nil {
				return nil
			}
		}
		if ctx.Err() != nil || csi.RetryOf(err) == volume.RetryNever {
			return err
		}
		if !r.impatient {
			time.Sleep(pause)
		}
		pause *= 2
	}
}

func (r *reference) target(u Use) string { return filepath.Join(r.root, ids.Segment(string(u.Alloc))) }

func (r *reference) Mount(ctx context.Context, u Use) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	staging, target := filepath.Join(r.root, "s"), r.target(u)
	r.volume = u.Volume.ID
	if r.staged != "present" {
		err := r.step(ctx, func(c *csi.Client) error {
			r.staged = "uncertain"
			err := c.Stage(ctx,
				csi.StageRequest{
					VolumeID:      u.Volume.ID,
					StagingPath:   staging,
					Capability:    u.Capability,
					VolumeContext: u.Volume.Context,
				})
			if err == nil {
				r.staged = "present"
			} else if r.forgets {
				r.staged = ""
			}
			return err
		})
		if err != nil {
			return "", err
		}
	}
	if r.spots[target] == "present" {
		return target, nil
	}
	return target, r.step(ctx, func(c *csi.Client) error {
		r.spots[target] = "uncertain"
		err := c.Publish(ctx, csi.PublishRequest{
			VolumeID:      u.Volume.ID,
			StagingPath:   staging,
			TargetPath:    target,
			Capability:    u.Capability,
			VolumeContext: u.Volume.Context,
			ReadOnly:      u.ReadOnly,
		})
		if err != nil {
			if r.forgets {
				delete(r.spots, target)
			}
			return err
		}
		if mounted, err := mountinfo.Mounted(target); !r.believes && (err != nil || !mounted) {
			return errors.New("the plugin said OK but nothing is mounted")
		}
		r.spots[target] = "present"
		return nil
	})
}

func (r *reference) Unmount(ctx context.Context, u Use) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	target := r.target(u)
	if r.spots[target] != "" {
		err := r.step(ctx, func(c *csi.Client) error {
			r.spots[target] = "uncertain"
			return c.Unpublish(ctx, csi.UnpublishRequest{VolumeID: u.Volume.ID, TargetPath: target})
		})
		if err != nil {
			return err
		}
		delete(r.spots, target)
	}
	if r.staged == "" || len(r.spots) > 0 && !r.unguarded {
		return nil
	}
	err := r.step(ctx, func(c *csi.Client) error {
		r.staged = "uncertain"
		err := c.Unstage(ctx, csi.UnstageRequest{VolumeID: u.Volume.ID, StagingPath: filepath.Join(r.root, "s")})
		if r.unguarded && csi.CodeOf(err) == codes.Internal {
			return nil
		}
		return err
	})
	if err == nil {
		r.staged = ""
	}
	return err
}

func TestTheSuitePassesAKeeperThatObeys(t *testing.T) {
	Suite(t, func(t testing.TB, p *Plugin) Mounter { return newReference(t, p) })
}

// witness is a test that may fail.
type witness struct {
	testing.TB
	mu      sync.Mutex
	texts   []string
	cleanup []func()
}

func (w *witness) note(args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, fmt.Sprint(args...))
}
func (w *witness) Helper()                   {}
func (w *witness) Cleanup(fn func())         { w.cleanup = append(w.cleanup, fn) }
func (w *witness) Error(args ...any)         { w.note(args...) }
func (w *witness) Errorf(f string, a ...any) { w.note(fmt.Sprintf(f, a...)) }
func (w *witness) Fatal(args ...any)         { w.note(args...); runtime.Goexit() }
func (w *witness) Fatalf(f string, a ...any) { w.note(fmt.Sprintf(f, a...)); runtime.Goexit() }

func TestTheSuiteFindsKeepersThatDoNot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	for _, c := range []struct {
		scenario string
		spoil    func(*reference)
		want     string
	}{
		{"OKWithoutEffectIsNotBelieved", func(r *reference) { r.believes = true }, "the mount table does not have it"},
		{"TwoAllocsOneStaging", func(r *reference) { r.unguarded = true }, "I3: unstaged under"},
		{"AbortedIsRepeated", func(r *reference) { r.impatient = true }, "I11: NodeStageVolume repeated"},
		{"RestartInQuietChangesNothing", func(r *reference) {
			r.tidy = true
		}, "I5: unpublished while a process of the alloc lives: alloc a"},
		{"RestartInQuietChangesNothing", func(r *reference) {
			r.amnesiac = true
		}, "I20: NodeStageVolume was sent in a quiet time"},
	} {
		t.Run(c.scenario, func(t *testing.T) {
			for _, s := range scenarios() {
				if s.name != c.scenario {
					continue
				}
				w := &witness{TB: t}
				done := make(chan struct{})
				go func() {
					defer close(done)
					s.play(w, 2*time.Second, func(_ testing.TB, p *Plugin) Mounter {
						r := newReference(w, p)
						c.spoil(r)
						return r
					})
				}()
				<-done
				for i := len(w.cleanup) - 1; i >= 0; i-- {
					w.cleanup[i]()
				}
				if all := strings.Join(w.texts, "\n"); !strings.Contains(all, c.want) {
					t.Errorf("the suite says nothing of %q:\n%s", c.want, all)
				}
				return
			}
			t.Fatalf("no scenario %q", c.scenario)
		})
	}
}
