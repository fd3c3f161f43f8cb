package datadir

import (
	"fmt"
	"os"

	"berth/internal/localcsi/image"
	"berth/internal/localcsi/store"
)

// WholeVolume says that the image of a volume has lost what it had, as far as its length and its first bytes show it;
// nil: they show nothing. An empty disk in the place of one with data is never given to anybody, copied or kept.
func (p *Directory) WholeVolume(v *store.Volume) error {
	return whole(p.Volumes.Image(v.Key), v.LeastImage(), v.Formatted())
}

// WholeSnapshot is WholeVolume of a snapshot.
func (p *Directory) WholeSnapshot(s *store.Snapshot) error {
	return whole(p.Snapshots.Image(s.Key), s.Size, s.Mount && !s.Block)
}

func whole(path string, least int64, formatted bool) error {
	st, err := os.Stat(path)
	if err != nil {
		return err
	}
	if st.Size() < least {
		return fmt.Errorf("its image %s is cut off: it has %d bytes of %d", path, st.Size(), least)
	}
	if !formatted {
		return nil
	}
	has, err := image.Probe(path)
	if err == nil && has.FS == "" {
		err = fmt.Errorf("its image %s holds no file system any more", path)
	}
	return err
}
