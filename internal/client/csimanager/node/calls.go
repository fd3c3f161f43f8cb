package node

import (
	"context"
	"path/filepath"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/redact"
	"berth/internal/client/csimanager/entry"
	"berth/internal/client/csimanager/evidence"
	"berth/internal/client/csimanager/instance"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
	"berth/internal/port/hostfs"
)

// call is one prepared call: everything that it needs was copied under the lock.
type call func(ctx context.Context) error

// prepare fills in what a step's intent must record: paths, and the arguments of a first staging. Nothing outside
// memory changes. The caller holds the lock.
func (vs *volumeState) prepare(s entry.Step, conn *instance.Connection) error {
	e := vs.entry
	st := &e.Staging
	if st.HostPath != "" && st.Presence.Exists() && !strings.HasPrefix(st.HostPath, conn.Info.HostBase+"/") {
		return fault.New(fault.NotReady, string(s.Verb), entry.Describe(e.Key),
			"the running plugin instance uses the base directory "+conn.Info.HostBase+
				", the volume was staged below another: "+st.HostPath)
	}
	if why := plugin.Foreign(e.Key.Plugin, e.Provider, conn.Facts.Name); why != "" {
		return fault.New(fault.NotReady, string(s.Verb), entry.Describe(e.Key), why)
	}
	if e.Provider == "" {
		e.Provider = conn.Facts.Name
	}
	vs.guessPaths(s, conn)
	switch s.Verb {
	case entry.Stage:
		st.By = runOf(conn)
		if st.Presence == volume.Absent || st.Guessed { // the servers' record has the arguments that were sent
			st.Guessed = false
			st.Args = argsOf(vs.requests[e.Requester(vs.facts(entry.Facts{}))])
			st.Skip = !conn.Facts.Stages()
			tail := volume.StagingTail(e.Key.ExternalID)
			st.HostPath, st.TaskPath = filepath.Join(conn.Info.HostBase, tail), filepath.Join(conn.Info.TaskBase, tail)
		}
	case entry.Publish:
		p := e.Pubs[s.Alloc]
		p.By = runOf(conn)
		if p.Presence == volume.Absent {
			tail := evidence.TargetTail(e.Key.ExternalID, s.Alloc)
			p.HostPath, p.TaskPath = filepath.Join(conn.Info.HostBase, tail), filepath.Join(conn.Info.TaskBase, tail)
			p.Device = ""
		}
	}
	return nil
}

// guessPaths fills in, of what was named by the hash of a claim alone, the paths in the eyes of the plugin: those of
// the instance that is asked. The caller holds the lock.
func (vs *volumeState) guessPaths(s entry.Step, conn *instance.Connection) {
	if st := &vs.entry.Staging; st.TaskPath == "" && st.HostPath != "" {
		st.TaskPath = filepath.Join(conn.Info.TaskBase, volume.StagingTail(vs.entry.Key.ExternalID))
		st.Skip = st.Guessed && !conn.Facts.Stages()
	}
	if p := vs.entry.Pubs[s.Alloc]; p != nil && p.TaskPath == "" && p.HostPath != "" {
		p.TaskPath = filepath.Join(conn.Info.TaskBase, evidence.TargetTail(vs.entry.Key.ExternalID, s.Alloc))
	}
}

// callOf builds the call of a step from the record. The caller holds the lock.
func (k *Keeper) callOf(vs *volumeState, s entry.Step, conn *instance.Connection) call {
	e := vs.entry.Clone()
	switch s.Verb {
	case entry.Stage:
		secrets := vs.requests[e.Requester(vs.facts(entry.Facts{}))].Secrets
		return func(ctx context.Context) error { return k.stage(ctx, e, conn, secrets) }
	case entry.Unstage:
		return func(ctx context.Context) error { return k.unstage(ctx, e, conn) }
	case entry.Publish:
		secrets := vs.requests[s.Alloc].Secrets
		return func(ctx context.Context) error { return k.publish(ctx, e, s.Alloc, conn, secrets) }
	case entry.Unpublish:
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
func (k *Keeper) stage(ctx context.Context, e *entry.Entry, conn *instance.Connection, secrets redact.Map) error {
	if e.Staging.Skip {
		return nil
	}
	if err := k.cfg.Holding.StageAgain(ctx, e); err != nil {
		return notSent{err}
	}
	if err := hostfs.MakeDir(e.Staging.HostPath); err != nil {
		return notSent{err}
	}
	if err := evidence.WriteIDFile(k.cfg.Codec, e, ""); err != nil {
		return notSent{err}
	}
	a := e.Staging.Args
	return conn.Client.Stage(ctx, csi.StageRequest{
		VolumeID:       e.Key.ExternalID,
		StagingPath:    e.Staging.TaskPath,
		Capability:     a.Capability(),
		PublishContext: a.PublishContext,
		VolumeContext:  a.VolumeContext,
		Secrets:        secrets,
	})
}

// unstage undoes the staging (CSI spec, NodeUnstageVolume). It is sent only when no publication can exist.
func (k *Keeper) unstage(ctx context.Context, e *entry.Entry, conn *instance.Connection) error {
	if e.Staging.Skip {
		return nil
	}
	return conn.Client.Unstage(ctx, csi.UnstageRequest{VolumeID: e.Key.ExternalID, StagingPath: e.Staging.TaskPath})
}

// publish exposes the volume for one alloc (CSI spec, NodePublishVolume). The parent of the target is ours and closed
// to everybody, so that nothing can be written beneath an unmounted target; the target itself is the plugin's.
func (k *Keeper) publish(
	ctx context.Context, e *entry.Entry, alloc ids.Alloc, conn *instance.Connection, secrets redact.Map,
) error {
	p := e.Pubs[alloc]
	parent := filepath.Dir(p.HostPath)
	if err := hostfs.MakeDir(parent); err != nil {
		return notSent{err}
	}
	if err := evidence.WriteIDFile(k.cfg.Codec, e, alloc); err != nil {
		return notSent{err}
	}
	a := e.Staging.Args
	req := csi.PublishRequest{
		VolumeID:       e.Key.ExternalID,
		TargetPath:     p.TaskPath,
		Capability:     a.Capability(),
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
func (k *Keeper) unpublish(ctx context.Context, e *entry.Entry, alloc ids.Alloc, conn *instance.Connection) error {
	return conn.Client.Unpublish(ctx,
		csi.UnpublishRequest{VolumeID: e.Key.ExternalID, TargetPath: e.Pubs[alloc].TaskPath})
}
