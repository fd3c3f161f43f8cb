package node

import (
	"context"
	"path/filepath"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/redact"
	"berth/internal/client/csimanager/instance"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
	"berth/internal/port/hostfs"
)

type secretMap = redact.Map

// call is one prepared call: everything that it needs was copied under the lock.
type call func(ctx context.Context) error

// prepare fills in what a step's intent must record: paths, and the arguments of a first staging. Nothing outside
// memory changes. The caller holds the lock.
func (vs *volumeState) prepare(s Step, conn *instance.Connection) error {
	e := vs.entry
	st := &e.Staging
	if st.HostPath != "" && st.Presence.Exists() && !strings.HasPrefix(st.HostPath, conn.Info.HostBase+"/") {
		return fault.New(fault.NotReady, string(s.Verb), describeKey(e.Key),
			"the running plugin instance uses the base directory "+conn.Info.HostBase+
				", the volume was staged below another: "+st.HostPath)
	}
	switch s.Verb {
	case Stage:
		if st.Presence == volume.Absent {
			st.Args = argsOf(vs.requests[e.requester(vs.facts(Facts{}))])
			st.Skip = !conn.Facts.Stages()
			tail := stagingTail(e.Key.ExternalID)
			st.HostPath, st.TaskPath = filepath.Join(conn.Info.HostBase, tail), filepath.Join(conn.Info.TaskBase, tail)
		}
	case Publish:
		p := e.Pubs[s.Alloc]
		if p.Presence == volume.Absent {
			tail := filepath.Join(targetParentTail(e.Key.ExternalID, s.Alloc), targetName)
			p.HostPath, p.TaskPath = filepath.Join(conn.Info.HostBase, tail), filepath.Join(conn.Info.TaskBase, tail)
			p.Device = ""
		}
	}
	return nil
}

// callOf builds the call of a step from the record. The caller holds the lock.
func (k *Keeper) callOf(vs *volumeState, s Step, conn *instance.Connection) call {
	e := vs.entry.clone()
	switch s.Verb {
	case Stage:
		secrets := vs.requests[e.requester(vs.facts(Facts{}))].Secrets
		return func(ctx context.Context) error { return k.stage(ctx, e, conn, secrets) }
	case Unstage:
		return func(ctx context.Context) error { return k.unstage(ctx, e, conn) }
	case Publish:
		secrets := vs.requests[s.Alloc].Secrets
		return func(ctx context.Context) error { return k.publish(ctx, e, s.Alloc, conn, secrets) }
	case Unpublish:
		return func(ctx context.Context) error { return k.unpublish(ctx, e, s.Alloc, conn) }
	}
	return func(ctx context.Context) error { return k.expand(ctx, e, conn) }
}

// notSent marks a failure on this side before anything reached the plugin.
type notSent struct{ error }

// Unwrap keeps the identity of the cause.
func (n notSent) Unwrap() error { return n.error }

// stage prepares the volume once on this node (CSI spec, NodeStageVolume). The directory is ours, its content the
// plugin's.
func (k *Keeper) stage(ctx context.Context, e *Entry, conn *instance.Connection, secrets secretMap) error {
	if e.Staging.Skip {
		return nil
	}
	if err := hostfs.MakeDir(e.Staging.HostPath); err != nil {
		return notSent{err}
	}
	if err := k.writeIDFile(e.Staging.HostPath, e, ""); err != nil {
		return notSent{err}
	}
	a := e.Staging.Args
	return conn.Client.Stage(ctx, csi.StageRequest{
		VolumeID:       e.Key.ExternalID,
		StagingPath:    e.Staging.TaskPath,
		Capability:     a.capability(),
		PublishContext: a.PublishContext,
		VolumeContext:  a.VolumeContext,
		Secrets:        secrets,
	})
}

// unstage undoes the staging (CSI spec, NodeUnstageVolume). It is sent only when no publication can exist.
func (k *Keeper) unstage(ctx context.Context, e *Entry, conn *instance.Connection) error {
	if e.Staging.Skip {
		return nil
	}
	return conn.Client.Unstage(ctx, csi.UnstageRequest{VolumeID: e.Key.ExternalID, StagingPath: e.Staging.TaskPath})
}

func (a Args) capability() csi.VolumeCapability {
	return csi.CapabilityOf(volume.Capability{AccessMode: a.AccessMode, AttachmentMode: a.AttachmentMode},
		a.MountOptions)
}

// publish exposes the volume for one alloc (CSI spec, NodePublishVolume). The parent of the target is ours and closed
// to everybody, so that nothing can be written beneath an unmounted target; the target itself is the plugin's.
func (k *Keeper) publish(
	ctx context.Context, e *Entry, alloc ids.Alloc, conn *instance.Connection, secrets secretMap,
) error {
	p := e.Pubs[alloc]
	parent := filepath.Dir(p.HostPath)
	if err := hostfs.MakeDir(parent); err != nil {
		return notSent{err}
	}
	if err := k.writeIDFile(parent, e, alloc); err != nil {
		return notSent{err}
	}
	a := e.Staging.Args
	req := csi.PublishRequest{
		VolumeID:       e.Key.ExternalID,
		TargetPath:     p.TaskPath,
		Capability:     a.capability(),
		ReadOnly:       p.ReadOnly || a.AccessMode.ReaderOnly(),
		PublishContext: a.PublishContext,
		VolumeContext:  a.VolumeContext,
		Secrets:        secrets,
	}
	if !e.Staging.Skip {
		req.StagingPath = e.Staging.TaskPath
	}
	return conn.Client.Publish(ctx, req)
}

// unpublish undoes a publication (CSI spec, NodeUnpublishVolume). The flow lets it happen only when the processes of
// the alloc are proven gone.
func (k *Keeper) unpublish(ctx context.Context, e *Entry, alloc ids.Alloc, conn *instance.Connection) error {
	return conn.Client.Unpublish(ctx,
		csi.UnpublishRequest{VolumeID: e.Key.ExternalID, TargetPath: e.Pubs[alloc].TaskPath})
}
