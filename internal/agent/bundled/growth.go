package bundled

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/logkey"
	"berth/internal/base/retry"
	"berth/internal/base/sizes"
	"berth/internal/base/volumestore"
)

// growthEvery is how often it is looked whether volumes can be written full.
const growthEvery = time.Minute

// Watch warns, until ctx ends, when the file system beneath the volumes has less free than they may still be written
// with. The plugin promises each its whole size when it makes it, so that others have taken the space since.
func (p *Plugin) Watch(ctx context.Context) error {
	for ok := true; ok; ok = retry.Sleep(ctx, growthEvery) {
		p.look()
	}
	return nil
}

func (p *Plugin) look() {
	left, grows, err := growth(p.Dir)
	switch {
	case err != nil:
		p.Log.Debug("whether volumes can be written full is not known", logkey.Error, err)
	case left < grows && !p.short:
		p.short = true
		p.Log.Warn("volumes of this node cannot be written full: what they may still grow by is more than their file "+
			"system has free, and whoever writes when it has none gets an I/O error", logkey.Path, p.Dir, "free",
			sizes.Human(left), "may_grow_by", sizes.Human(grows), "hint", "free at least "+sizes.Human(grows-left)+
				" there, of what is not volumes, or delete volumes and snapshots; to keep others out of it, give the "+
				"volumes a file system of their own: mount it on "+p.Dir+", with what is in there")
	case left >= grows && p.short:
		p.short = false
		p.Log.Info("volumes of this node can be written full again", logkey.Path, p.Dir, "free", sizes.Human(left),
			"may_grow_by", sizes.Human(grows))
	}
}

// growth is how many bytes the file system beneath a directory of volumes has free, and by how many bytes their images
// may still grow. What images share with snapshots is not counted: they may grow by more.
func growth(dir string) (left, grows int64, err error) {
	images, err := filepath.Glob(filepath.Join(dir, volumestore.VolumesDir, "*", "image"))
	if err != nil || len(images) == 0 {
		return 0, 0, err
	}
	for _, path := range images {
		var st unix.Stat_t
		switch err := unix.Lstat(path, &st); {
		case errors.Is(err, fs.ErrNotExist): // deleted meanwhile
		case err != nil:
			return 0, 0, fault.Wrap(err, fault.Internal, "look at", path)
		default:
			grows += max(0, st.Size-st.Blocks*512)
		}
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, fault.Wrap(err, fault.Internal, "look at", dir)
	}
	return int64(st.Bavail) * st.Bsize, grows, nil
}
