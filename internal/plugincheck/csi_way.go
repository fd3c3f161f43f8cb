package plugincheck

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"berth/internal/base/lifecycle"
	"berth/internal/base/retry"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
)

// way is how a volume comes to a path of the node, and goes from there.
type way struct {
	s        *storage
	vol      csi.Volume
	staging  string
	target   string
	readOnly bool
	attached atomic.Pointer[map[string]string] // what the attachment gave to the node's calls; several attach at once
}

// step is one call on the way, and what must be so when it has ended well.
type step struct {
	name  string
	call  call
	holds func() error
	last  bool // of the way down
}

// newWay readies the directories of a way. A target is made by the plugin, its parent by who calls. What an earlier way
// has left because a promise was broken on it is taken down before, so that no other is judged by it.
func (s *storage) newWay(ctx context.Context, vol csi.Volume, name string, readOnly bool) (*way, error) {
	if err := s.clear(ctx); err != nil {
		return nil, fmt.Errorf("what an earlier test left: %w", err)
	}
	w := &way{
		s:        s,
		vol:      vol,
		staging:  filepath.Join(s.dir, name, "staging"),
		target:   filepath.Join(s.dir, name, "target", "mount"),
		readOnly: readOnly,
	}
	return w, errors.Join(os.MkdirAll(w.staging, 0o750), os.MkdirAll(filepath.Dir(w.target), 0o750))
}

// clear takes down the way that was begun last.
func (s *storage) clear(ctx context.Context) error {
	if s.last == nil {
		return nil
	}
	return s.last.walk(ctx, s.last.down())
}

func (w *way) attaches() bool {
	return w.s.inst.Roles.Has(csi.RoleController) && w.s.inst.NeedsAttach()
}

// context is what the attachment gave to the node's calls.
func (w *way) context() map[string]string {
	if c := w.attached.Load(); c != nil {
		return *c
	}
	return nil
}

// up are the steps to the target.
func (w *way) up() (out []step) {
	s := w.s
	use := s.use(volume.SingleNodeWriter)
	if w.attaches() {
		out = append(out, step{"attach", func(ctx context.Context, c *csi.Client) error {
			a, err := c.Attach(ctx, csi.AttachRequest{
				VolumeID:      w.vol.ID,
				NodeID:        s.inst.NodeID,
				Capability:    use,
				Secrets:       s.secrets(),
				VolumeContext: w.vol.Context,
			})
			if err == nil {
				w.attached.Store(&a.PublishContext)
			}
			return err
		}, nil, false})
	}
	if s.inst.Stages() {
		out = append(out, step{"stage", func(ctx context.Context, c *csi.Client) error {
			return c.Stage(ctx, csi.StageRequest{
				VolumeID:       w.vol.ID,
				StagingPath:    w.staging,
				Capability:     use,
				PublishContext: w.context(),
				VolumeContext:  w.vol.Context,
				Secrets:        s.secrets(),
			})
		}, nil, false})
	}
	return append(out, step{"publish", func(ctx context.Context, c *csi.Client) error {
		r := csi.PublishRequest{
			VolumeID:       w.vol.ID,
			TargetPath:     w.target,
			Capability:     use,
			ReadOnly:       w.readOnly,
			PublishContext: w.context(),
			VolumeContext:  w.vol.Context,
			Secrets:        s.secrets(),
		}
		if s.inst.Stages() {
			r.StagingPath = w.staging
		}
		return c.Publish(ctx, r)
	}, func() error { return w.mounted(w.target, true) }, false})
}

// down are the steps from the target.
func (w *way) down() []step {
	s := w.s
	out := []step{{"unpublish", func(ctx context.Context, c *csi.Client) error {
		return c.Unpublish(ctx, csi.UnpublishRequest{VolumeID: w.vol.ID, TargetPath: w.target})
	}, func() error { return w.mounted(w.target, false) }, false}}
	if s.inst.Stages() {
		out = append(out, step{"unstage", func(ctx context.Context, c *csi.Client) error {
			return c.Unstage(ctx, csi.UnstageRequest{VolumeID: w.vol.ID, StagingPath: w.staging})
		}, func() error { return w.mounted(w.staging, false) }, false})
	}
	if w.attaches() {
		out = append(out, step{"detach", func(ctx context.Context, c *csi.Client) error {
			return c.Detach(ctx, csi.DetachRequest{VolumeID: w.vol.ID, NodeID: s.inst.NodeID, Secrets: s.secrets()})
		}, nil, false})
	}
	out[len(out)-1].last = true
	return out
}

// mounted holds a path against the mount table, which has the last word.
func (w *way) mounted(path string, want bool) error {
	found, err := w.s.mounts(path)
	switch {
	case err != nil:
		return err
	case want && len(found) == 0:
		return broken("it answers OK, and nothing is mounted at the target")
	case !want && len(found) > 0:
		return broken("it answers OK, and %s is still mounted", found[0].Path)
	}
	return nil
}

// walk makes steps one after the other, each until it has ended well.
func (w *way) walk(ctx context.Context, steps []step) error {
	for _, st := range steps {
		if err := w.make(ctx, st); err != nil {
			return err
		}
	}
	return nil
}

func (w *way) make(ctx context.Context, st step) error {
	w.s.last = w
	err := w.s.until(ctx, st.name, st.call)
	if err == nil && st.holds != nil {
		if err = st.holds(); err != nil {
			err = fmt.Errorf("%s: %w", st.name, err)
		}
	}
	if err == nil && st.last {
		w.s.last = nil
	}
	return err
}

func (w *way) both() [][]step { return [][]step{w.up(), w.down()} }

// keptText is what tests write into a volume.
const keptText = "kept by a test of plugins\n"

func (w *way) kept() string { return filepath.Join(w.target, "plugin-test") }

func (w *way) write() error { return os.WriteFile(w.kept(), []byte(keptText), 0o600) }

func (w *way) read() error {
	text, err := os.ReadFile(w.kept())
	if err != nil {
		return broken("what was written is not there: %v", err)
	}
	if string(text) != keptText {
		return broken("what was written is %q, and was %q", text, keptText)
	}
	return nil
}

// needWay skips what needs a volume on the node.
func (s *storage) needWay() error {
	if err := s.needVolume(); err != nil {
		return err
	}
	if err := need(s.inst.Roles.Has(csi.RoleNode), "to mount volumes on nodes"); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return &skipped{"only root can see whether it mounts"}
	}
	return nil
}

// through takes a volume to a target, does something there, and takes it back.
func (s *storage) through(ctx context.Context, vol csi.Volume, name string, readOnly bool, do func(*way) error) error {
	w, err := s.newWay(ctx, vol, name, readOnly)
	if err == nil {
		err = w.walk(ctx, w.up())
	}
	if err != nil {
		return err
	}
	err = do(w)
	return errors.Join(err, w.walk(ctx, w.down()))
}

func (s *storage) keeps(ctx context.Context) (string, error) {
	if err := s.needWay(); err != nil {
		return "", err
	}
	if err := s.through(ctx, s.vol, "keeps", false, (*way).write); err != nil {
		return "", err
	}
	return "", s.through(ctx, s.vol, "keeps-again", false, (*way).read)
}

func (s *storage) readOnly(ctx context.Context) (string, error) {
	if err := s.needWay(); err != nil {
		return "", err
	}
	return "", s.through(ctx, s.vol, "read-only", true, func(w *way) error {
		if os.WriteFile(filepath.Join(w.target, "not-allowed"), nil, 0o600) == nil {
			return broken("it was written")
		}
		return w.read()
	})
}

// repeats makes each call twice, as after a lost answer; and the way down once more, from its end.
func (s *storage) repeats(ctx context.Context) (string, error) {
	if err := s.needWay(); err != nil {
		return "", err
	}
	w, err := s.newWay(ctx, s.vol, "repeats", false)
	if err != nil {
		return "", err
	}
	for _, steps := range append(w.both(), w.down()) {
		for _, st := range steps {
			for _, again := range []string{"", "again, "} {
				if err := w.make(ctx, st); err != nil {
					return "", fmt.Errorf("%s%w", again, err)
				}
			}
		}
	}
	return "", nil
}

// stormSize is how many equal calls are made at once.
const stormSize = 8

// storms makes each call many times at once. Each ends well or is told to wait; repeated afterwards it ends well.
func (s *storage) storms(ctx context.Context) (string, error) {
	if err := s.needWay(); err != nil {
		return "", err
	}
	w, err := s.newWay(ctx, s.vol, "storms", false)
	if err != nil {
		return "", err
	}
	waits := 0
	for _, steps := range w.both() {
		for _, st := range steps {
			c, err := s.connected(ctx)
			if err != nil {
				return "", err
			}
			var mu sync.Mutex
			var wrong []error
			g, gctx := lifecycle.NewGroup(ctx)
			for range stormSize {
				g.Go(st.name, func() error {
					err := st.call(gctx, c)
					mu.Lock()
					defer mu.Unlock()
					if passing(err) {
						waits++
					} else {
						wrong = append(wrong, err)
					}
					return nil
				})
			}
			if err := errors.Join(g.Wait(), errors.Join(wrong...)); err != nil {
				return "", fmt.Errorf("%s: %w", st.name, err)
			}
			if err := w.make(ctx, st); err != nil {
				return "", err
			}
		}
	}
	return fmt.Sprintf("%d of them were told to wait", waits), nil
}

// disturbed makes each step, disturbs it at a moment, and repeats it until it has ended well.
func (s *storage) disturbed(
	ctx context.Context, name string, moments []time.Duration, disturb func(cancel func()) error,
) (string, error) {
	if err := s.needWay(); err != nil {
		return "", err
	}
	w, err := s.newWay(ctx, s.vol, name, false)
	if err != nil {
		return "", err
	}
	times := 0
	for _, moment := range moments {
		for i, steps := range w.both() {
			for _, st := range steps {
				if err := s.disturb(ctx, st, moment, disturb); err != nil {
					return "", err
				}
				times++
				if err := w.make(ctx, st); err != nil {
					return "", fmt.Errorf("after %s: %w", moment, err)
				}
			}
			if i == 0 {
				if err := w.read(); err != nil {
					return "", fmt.Errorf("after %s: %w", moment, err)
				}
			}
		}
	}
	return fmt.Sprintf("%d calls", times), nil
}

func (s *storage) disturb(ctx context.Context, st step, moment time.Duration, disturb func(cancel func()) error) error {
	c, err := s.connected(ctx)
	if err != nil {
		return err
	}
	cctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g, _ := lifecycle.NewGroup(ctx)
	g.Go(st.name, func() error {
		_ = st.call(cctx, c) // it is repeated, whatever it answers
		return nil
	})
	if moment > 0 {
		retry.Sleep(ctx, moment)
	}
	return errors.Join(disturb(cancel), g.Wait())
}

func (s *storage) brokenOff(ctx context.Context) (string, error) {
	moments := []time.Duration{0, time.Millisecond, 3 * time.Millisecond, 10 * time.Millisecond, 30 * time.Millisecond}
	return s.disturbed(ctx, "broken-off", moments, func(cancel func()) error {
		cancel()
		return nil
	})
}

func (s *storage) killed(ctx context.Context) (string, error) {
	moments := []time.Duration{0, 2 * time.Millisecond, 20 * time.Millisecond} // each start of it takes a while
	return s.disturbed(ctx, "killed", moments, func(func()) error { return s.kill() })
}
