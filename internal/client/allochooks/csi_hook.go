package allochooks

import (
	"context"
	"maps"
	"strings"
	"sync"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/client/csimanager"
	"berth/internal/client/hook"
	"berth/internal/model/alloc"
	"berth/internal/model/volume"
	"berth/internal/port/driver"
)

// grantWait is how long one question to the servers may stay open; they answer earlier when something changed.
const grantWait = 30 * time.Second

// Grants asks the servers for an alloc's permissions to mount; the client implements it.
type Grants interface {
	// Grants answers at once when the answer is not the one that was seen last, else when it changes or wait is over.
	Grants(ctx context.Context, id ids.Alloc, wait time.Duration, seen string) (*csimanager.Grants, error)
}

// CSI waits for the claims of an alloc, mounts its volumes, and releases them at the end.
type CSI struct {
	Grants    Grants
	Mounter   csimanager.VolumeMounter
	Uses      Uses
	Processes csimanager.ProcessGate

	owners owners
}

var (
	_ hook.Prerunner  = (*CSI)(nil)
	_ hook.Postrunner = (*CSI)(nil)
)

// Name implements hook.Hook.
func (*CSI) Name() string { return "csi_volumes" }

// Prerun waits for all claims, then mounts all volumes at once: the time does not depend on their number.
func (h *CSI) Prerun(ctx context.Context, a *hook.Alloc) error {
	if len(a.Group.CSIVolumes()) == 0 {
		return nil
	}
	if err := CheckMountSupport(a); err != nil {
		return err
	}
	return hook.ForStorage(h.mount(ctx, a))
}

func (h *CSI) mount(ctx context.Context, a *hook.Alloc) error {
	requests, err := h.await(ctx, a)
	if err != nil {
		return err
	}
	mounts, err := h.mountAll(ctx, a, requests)
	if err != nil {
		return err
	}
	for _, req := range requests {
		if err := h.give(ctx, a, req, mounts[req.Alias]); err != nil {
			return err
		}
	}
	a.Mounts.Set(mounts)
	return nil
}

// await follows the servers' answer until every grant is there; each new reason becomes an event, unless it is a call
// under way that goes well and has not lasted.
func (h *CSI) await(ctx context.Context, a *hook.Alloc) ([]csimanager.MountRequest, error) {
	seen, reported := "", ""
	begun, wait := time.Now(), time.Duration(0)
	for {
		reply, err := h.Grants.Grants(ctx, a.Alloc.ID, wait, seen)
		switch {
		case err != nil:
			// The servers cannot be asked: that is waiting, not failing. The runner asks again.
			return nil, fault.Wrap(err, waitKind(err), "wait for the volumes of",
				`allocation "`+ids.Short(a.Alloc.ID)+`"`)
		case reply.Ready:
			return reply.Mounts, nil
		}
		seen, wait = reply.Token, grantWait
		text, underWay := sentence(reply.Waiting)
		if left := progressDelay - time.Since(begun); underWay && left > 0 {
			wait = min(wait, left)
			continue
		}
		if text != reported {
			reported = text
			a.Emit(waiting(text))
		}
	}
}

// waitKind keeps final refusals and turns everything else into NotReady.
func waitKind(err error) fault.Kind {
	switch k := fault.KindOf(err); k {
	case fault.Invalid, fault.Unsupported, fault.Denied, fault.Canceled, fault.Conflict, fault.NotFound:
		return k
	}
	return fault.NotReady
}

// sentence tells the reasons, and whether nothing stands in the way of any.
func sentence(reasons []csimanager.WaitReason) (text string, underWay bool) {
	var parts []string
	underWay = true
	for _, r := range reasons {
		parts = append(parts, `volume "`+string(r.Volume.ID)+`": `+r.Reason)
		underWay = underWay && r.UnderWay
	}
	return strings.Join(parts, "; "), underWay
}

func waiting(text string) *alloc.TaskEvent {
	return &alloc.TaskEvent{
		Type:           alloc.EventStorageWaiting,
		Time:           time.Now().UnixNano(),
		DisplayMessage: text,
		Message:        text,
	}
}

// mountAll mounts every granted volume side by side. When one is refused permanently, the others are not waited for;
// what was mounted is released by Postrun.
func (h *CSI) mountAll(
	ctx context.Context, a *hook.Alloc, requests []csimanager.MountRequest,
) (map[string]csimanager.MountInfo, error) {
	g, gctx := lifecycle.NewGroup(ctx)
	var mu sync.Mutex
	mounts := map[string]csimanager.MountInfo{}
	for _, req := range requests {
		req.Progress = progress(a, req.Volume)
		g.Go("mount "+req.Alias, func() error {
			info, err := h.Mounter.MountVolume(gctx, req)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			mounts[req.Alias] = info
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fault.Wrap(err, fault.KindOf(err), "mount the volumes of", `allocation "`+ids.Short(a.Alloc.ID)+`"`)
	}
	return maps.Clone(mounts), nil
}

// How long a mount may take before the wait becomes an event: what stands in its way soon, a call that goes well only
// when a person would begin to ask.
const (
	eventDelay    = time.Second
	progressDelay = 10 * time.Second
)

func progress(a *hook.Alloc, id volume.ID) func(string, bool) {
	begun, reported := time.Now(), ""
	return func(reason string, underWay bool) {
		after := eventDelay
		if underWay {
			after = progressDelay
		}
		if reason != reported && time.Since(begun) > after {
			reported = reason
			a.Emit(waiting(`volume "` + string(id.ID) + `": ` + reason))
		}
	}
}

// Postrun withdraws every want of the alloc and waits until the node has released what it held.
func (h *CSI) Postrun(ctx context.Context, a *hook.Alloc) error {
	g, gctx := lifecycle.NewGroup(ctx)
	for _, key := range h.Mounter.Publications(a.Alloc.ID) {
		h.owners.forget(key)
		g.Go("unmount", func() error { return h.Mounter.UnmountVolume(gctx, key) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if ctx.Err() == nil && len(a.Group.CSIVolumes()) > 0 {
		h.Mounter.Released(a.Alloc.ID)
	}
	return ctx.Err()
}

// CheckMountSupport refuses, on the node too, what was refused at submit: a volume for a driver that mounts nothing.
// The node's drivers may have changed since.
func CheckMountSupport(a *hook.Alloc) error {
	for _, t := range a.Group.Tasks {
		if len(t.VolumeMounts) == 0 {
			continue
		}
		info, err := a.Driver(t.Driver)
		if err != nil {
			return err
		}
		if info.Capabilities.Mounts == driver.MountNone {
			return NoMounts(string(a.Job.ID), a.Group.Name, t.Name, t.Driver, t.VolumeMounts[0].Volume)
		}
	}
	return nil
}

// NoMounts is the refusal of a volume for a driver that mounts nothing.
func NoMounts(job, group, task, drv, vol string) error {
	return fault.WithHint(fault.New(fault.Invalid, "mount", `volume "`+vol+`"`,
		`job "`+job+`", group "`+group+`", task "`+task+`": the task driver "`+drv+
			`" cannot mount volumes into a task`),
		`use a driver that can, such as "exec", or remove the task's volume_mount blocks`)
}
