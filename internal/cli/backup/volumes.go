package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"berth/api"
	form "berth/internal/base/backup"
	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/retry"
	"berth/internal/base/volumestore"
	"berth/internal/cli/kit"
)

// prefix begins the name of each snapshot that a backup has made, so that the next one finds what was left.
const prefix = "berth-backup-"

// Times of a snapshot: how long the agent waits before it answers that it is accepted, and how long its deletion may
// take.
const (
	answerWithin = 5 * time.Second
	deleteWithin = time.Minute
)

// registered are all volumes that the servers know.
func (s *save) registered(ctx context.Context) ([]*api.CSIVolumeListStub, error) {
	list, _, err := s.env.Client().Volumes().List(ctx, &api.QueryOptions{Namespace: "*"})
	if err != nil {
		return nil, kit.Doing(err, "list", "volumes", "")
	}
	return list, nil
}

// volumes saves those that the bundled plugin keeps on this machine, and names all others. They are listed after the
// servers' state was saved.
func (s *save) volumes(ctx context.Context) (err error) {
	if s.sources, err = s.dirs.Sources(s.dataDir); err != nil {
		return err
	}
	list, err := s.registered(ctx)
	if err != nil {
		return err
	}
	s.leftovers(ctx)
	here := map[string]form.Image{}
	for _, one := range s.sources.Images {
		if !one.Snapshot {
			here[one.ID] = one
		}
	}
	m := &s.out.Manifest
	known := map[string]bool{}
	for _, stub := range list {
		v := form.Volume{Namespace: stub.Namespace, ID: stub.ID, Plugin: stub.PluginID, ExternalID: stub.ExternalID}
		one, ours := here[v.ExternalID]
		switch ours = ours && v.Plugin == s.sources.Plugin; {
		case known[v.ExternalID] && ours:
			v.Why = "it is the same as another volume of this list"
		case ours:
			known[v.ExternalID] = true
			if err := s.volume(ctx, &v, one); err != nil {
				return err
			}
		default:
			s.elsewhere(&v)
		}
		m.Volumes = append(m.Volumes, v)
	}
	for id := range here {
		if !known[id] {
			m.Volumes = append(m.Volumes, form.Volume{Plugin: s.sources.Plugin, ExternalID: id, Lost: true,
				Why: "no volume is registered with it; register or delete it, and back up again"})
		}
	}
	for _, err := range s.sources.Damaged {
		m.Volumes = append(m.Volumes, form.Volume{Plugin: s.sources.Plugin, ExternalID: "unknown", Lost: true,
			Why: "it is damaged: " + err.Error()})
	}
	return nil
}

// elsewhere says why a volume is not in the backup that does not lie here.
func (s *save) elsewhere(v *form.Volume) {
	switch {
	case v.ExternalID == "":
		v.Why = "it was being created; nothing is on it yet"
	case v.Plugin != s.sources.Plugin:
		v.Why = fmt.Sprintf("plugin %s keeps it: save it by the means of its provider", v.Plugin)
	case volumestore.OfNode(v.ExternalID, s.sources.NodeID):
		v.Why, v.Lost = "its image is not on this machine, though it should be", true
	default:
		v.Why = "it lies on another machine: run the backup there, too"
	}
}

// volume saves one volume as of one moment. An error of it ends the backup; what stands in the way of this volume alone
// is said in v.
func (s *save) volume(ctx context.Context, v *form.Volume, one form.Image) error {
	const tries = 3 // of a volume whose record changes meanwhile, as by an expansion
	for range tries {
		record, err := os.ReadFile(filepath.Join(s.dataDir, one.Record))
		if err != nil {
			return s.without(v, err)
		}
		at := time.Now().UTC()
		snapshot, err := s.cut(ctx, v)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return s.without(v, err)
		}
		again, err := os.ReadFile(filepath.Join(s.dataDir, one.Record))
		if err == nil && bytes.Equal(record, again) {
			err = s.take(ctx, record, snapshot, one)
			s.drop(ctx, snapshot)
			v.Saved, v.At = err == nil, at
			return err
		}
		s.drop(ctx, snapshot)
		if err != nil {
			return s.without(v, err)
		}
	}
	return s.without(v, errors.New("its record changed again and again meanwhile; back up once more"))
}

// without notes that a volume is not in the backup. One that was deleted meanwhile need not be.
func (s *save) without(v *form.Volume, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		v.Why = "it was deleted while the backup ran; the saved servers' state may know it all the same: deregister it"
		return nil
	}
	v.Why, v.Lost = kit.OneSentence(err.Error()), true
	return nil
}

// cut has the plugin make a snapshot of a volume.
func (s *save) cut(ctx context.Context, v *form.Volume) (id string, err error) {
	limited, cancel := context.WithTimeout(ctx, s.wait)
	defer cancel()
	o := &api.WriteOptions{Namespace: v.Namespace, Params: map[string]string{"wait": answerWithin.String()}}
	snap := &api.CSISnapshot{SourceVolumeID: v.ID, Name: prefix + ids.New()}
	for {
		out, _, err := s.env.Client().Volumes().CreateSnapshot(ctx, snap, o)
		switch {
		case err != nil:
			return "", kit.Doing(err, "snapshot", "volume", v.ID)
		case len(out.Results) == 0 || out.Results[0].Outcome != api.CSIVolumeAccepted:
			if len(out.Snapshots) != 1 {
				return "", fault.New(fault.Internal, "snapshot", "volume "+v.ID, "the agent names no snapshot")
			}
			return out.Snapshots[0].ID, nil
		}
		o.Params["following"] = "true"
		if !retry.Sleep(limited, 100*time.Millisecond) { // an agent that does not wait is not asked in a hot loop
			return "", kit.Fail(fault.Unavailable, "say with -wait how long to wait",
				"there was no snapshot of it within %s: %s", s.wait, out.Results[0].Waits)
		}
	}
}

// take copies what a snapshot holds to where the volume lies.
func (s *save) take(ctx context.Context, record []byte, snapshot string, one form.Image) error {
	from, err := s.dirs.Snapshot(s.sources, snapshot)
	if err != nil {
		return err
	}
	if err := s.out.Add(inData(one.Record), bytes.NewReader(record)); err != nil {
		return err
	}
	return s.out.AddSparse(ctx, inData(one.Data), filepath.Join(s.dataDir, from.Data))
}

// drop deletes a snapshot of ours, also when the command is being ended.
func (s *save) drop(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteWithin)
	defer cancel()
	err := s.env.Client().Volumes().DeleteSnapshot(ctx, s.sources.Plugin, id, nil, nil)
	if err != nil {
		s.env.Err.Notice(fmt.Sprintf("Snapshot %s of this backup was not deleted (%s): the next backup deletes it, or "+
			"\"berth volume snapshot delete %[3]s %[1]s\"", id, kit.OneSentence(err.Error()), s.sources.Plugin))
	}
}

// leftovers deletes what backups that were interrupted have left with the plugin.
func (s *save) leftovers(ctx context.Context) {
	var kept []form.Image
	for _, one := range s.sources.Images {
		if one.Snapshot && strings.HasPrefix(one.Name, prefix) {
			s.drop(ctx, one.ID)
			continue
		}
		kept = append(kept, one)
	}
	s.sources.Images = kept
}

// snapshots saves those that people have made.
func (s *save) snapshots(ctx context.Context) error {
	for _, one := range s.sources.Images {
		if !one.Snapshot {
			continue
		}
		err := s.out.AddFile(inData(one.Record), filepath.Join(s.dataDir, one.Record))
		if err == nil {
			err = s.out.AddSparse(ctx, inData(one.Data), filepath.Join(s.dataDir, one.Data))
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = s.out.Drop(path.Dir(inData(one.Record)))
			s.gap("snapshot " + one.ID + ", which was deleted while the backup ran")
		}
		if err != nil {
			return err
		}
	}
	return nil
}
