// Package datadir owns the bundled plugin's data directory and the node's use of what is in it: which volumes and
// snapshots exist, where they are mounted, how much capacity is promised, and how all of that is brought in order after
// a plugin was killed. The CSI services beside it are its only users.
package datadir

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"

	"berth/internal/base/durable"
	"berth/internal/base/flock"
	"berth/internal/base/logkey"
	"berth/internal/base/volumestore"
	"berth/internal/localcsi/image"
	"berth/internal/localcsi/request"
	"berth/internal/localcsi/store"
)

// Settings are what a data directory is opened with.
type Settings struct {
	Node        string        // id of this node
	Root        string        // the data directory
	Identity    string        // the file with the copy of its identity, outside of it; empty: there is none
	Attach      bool          // controller publish and unpublish are offered
	AttachLimit int64         // volumes attached (without Attach: staged) at once; 0: no limit
	Capacity    int64         // bytes for volumes and snapshots together; 0: what the file system has
	FreezeLimit time.Duration // how long the writers of a volume may be stopped for a copy
	Log         *slog.Logger
	Step        func(string) // called between the steps of a change; tests kill the process there
}

// Directory is an opened data directory.
type Directory struct {
	Settings
	Volumes   *store.Collection[*store.Volume]
	Snapshots *store.Collection[*store.Snapshot]
	Usages    *store.Usages
	Locks     Locks
	Copier    *image.Copier

	instance string // labels our loop devices; made with the data directory
	space    space
}

// Dir returns the path of one of the directories beneath the root.
func (p *Directory) Dir(name string) string { return filepath.Join(p.Root, name) }

// Directories and files beneath the data directory.
const (
	IdentityFile = volumestore.IdentityFile
	VolumesDir   = volumestore.VolumesDir
	SnapshotsDir = volumestore.SnapshotsDir
	MakingDir    = "making" // half-made volumes and snapshots
	TrashDir     = "trash"  // what was deleted and is not emptied out yet
	UsageDir     = "usage"
	FrozenDir    = "frozen" // a marker per volume while its file system is frozen
)

// Open takes possession of the data directory and brings it in order. The returned file holds the lock. One in the
// place of that of which there is a copy of the identity is refused, and nothing is made in it.
func Open(set Settings) (*Directory, *os.File, error) {
	if err := volumestore.Judge(set.Root, set.Identity); err != nil {
		return nil, nil, err
	}
	if err := durable.MakeDir(set.Root, 0o700); err != nil {
		return nil, nil, err
	}
	lock, err := lockDir(set.Root)
	if err != nil {
		return nil, nil, err
	}
	p, err := openLocked(set)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("data directory %s: %w", set.Root, err), flock.Release(lock))
	}
	return p, lock, nil
}

func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := flock.Try(f, unix.LOCK_EX); err != nil {
		return nil, errors.Join(
			fmt.Errorf("another local-csi plugin works on %s; stop it or use another --data-dir: %w", dir, err),
			f.Close())
	}
	if err := flock.Name(f); err != nil {
		return nil, errors.Join(err, flock.Release(f))
	}
	return f, nil
}

func openLocked(set Settings) (*Directory, error) {
	p := &Directory{Settings: set, Copier: &image.Copier{}}
	for _, name := range []string{VolumesDir, SnapshotsDir, MakingDir, TrashDir, UsageDir, FrozenDir} {
		if err := os.Mkdir(p.Dir(name), 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return nil, err
		}
	}
	if err := durable.SyncDir(set.Root); err != nil {
		return nil, err
	}
	if err := p.identify(); err != nil {
		return nil, err
	}
	boot, err := store.BootID()
	if err != nil {
		return nil, err
	}
	p.Volumes = store.NewCollection[*store.Volume](p.Dir(VolumesDir), p.Dir(TrashDir))
	p.Snapshots = store.NewCollection[*store.Snapshot](p.Dir(SnapshotsDir), p.Dir(TrashDir))
	p.Usages = store.NewUsages(p.Dir(UsageDir), boot)
	if err := p.recover(); err != nil {
		return nil, err
	}
	if p.Copier.Reflink, err = image.CanReflink(p.Dir(MakingDir)); err != nil {
		return nil, err
	}
	return p, nil
}

// identify reads whose directory this is, or makes it ours when it is new.
func (p *Directory) identify() error {
	path := p.Dir(IdentityFile)
	var at volumestore.Identity
	err := store.ReadJSON(path, &at)
	switch {
	case errors.Is(err, os.ErrNotExist):
		if held, err := volumestore.Held(p.Root); err != nil || held {
			return errors.Join(err, p.unidentified(errors.New("it is missing, and there are volumes or snapshots")))
		}
		at = volumestore.Identity{Schema: store.Schema, Node: p.Node, Instance: store.NewKey()[:16]}
		if err := store.WriteJSON(path, at, true); err != nil {
			return err
		}
	case err != nil:
		return p.unidentified(err)
	}
	switch {
	case at.Schema != store.Schema:
		return fmt.Errorf("its schema is %d, this plugin reads %d", at.Schema, store.Schema)
	case at.Node != p.Node:
		return fmt.Errorf(
			"it belongs to node %q and its volumes carry that name; start with --node-id %s or with another --data-dir",
			at.Node, at.Node)
	}
	p.instance = at.Instance
	if err := volumestore.Keep(p.Identity, at); err != nil { // a full disk ends nobody's volumes
		p.Log.Warn("while this is so, the loss of the data directory is not told from a new one; the next start tries "+
			"again", logkey.Error, err)
	}
	return nil
}

// There refuses what would be answered or done for another data directory than the one that was opened, as when its
// disk was unmounted meanwhile.
func (p *Directory) There() error {
	switch now, err := volumestore.Instance(p.Root); {
	case err != nil:
		return request.Refuse(codes.FailedPrecondition, "the data directory is not there any more: %w; if its disk "+
			"was unmounted, mount it on %s again", err, p.Root)
	case now != p.instance:
		return request.Refuse(codes.FailedPrecondition, "another data directory lies at %s, instance %s of it and not "+
			"%s: undo what was mounted or put there", p.Root, now, p.instance)
	}
	return nil
}

// unidentified is the refusal of a directory that does not say whose it is.
func (p *Directory) unidentified(err error) error {
	return fmt.Errorf("%s says whose directory this is: %w; nothing was changed. Restore that file from a copy; or, "+
		"if it is certain that these are the volumes of node %q, and the machine has been started anew since they were in "+
		`use, write {"schema":%d,"node":%q,"instance":%q} into it`,
		p.Dir(IdentityFile), err, p.Node, store.Schema, p.Node, store.NewKey()[:16])
}

// Label marks the loop devices of a volume.
func (p *Directory) Label(key string) string { return "berth/" + p.instance + "/" + key }
