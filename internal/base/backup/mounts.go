package backup

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
)

// mountPoint is a file system and where it is mounted.
type mountPoint struct {
	major, minor uint32
	mount        uint64 // 0: the kernel does not say
}

func placeOf(path string) (mountPoint, error) {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_MNT_ID, &st)
	if err != nil {
		return mountPoint{}, fault.Wrap(err, fault.Internal, "look at", path)
	}
	at := mountPoint{major: st.Dev_major, minor: st.Dev_minor}
	if st.Mask&unix.STATX_MNT_ID != 0 {
		at.mount = st.Mnt_id
	}
	return at, nil
}

// mountsIn lists the directories directly in a data directory on which something is mounted, as a disk for volumes.
// Each is empty: whether what lies there is of an interrupted call or somebody's data, nobody can tell, so that
// anything in it is refused. So is a mount further beneath, which a removal would cross.
func mountsIn(dataDir string) (mounted []string, err error) {
	root, err := placeOf(dataDir)
	if err != nil {
		return nil, err
	}
	err = filepath.WalkDir(dataDir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || path == dataDir {
			return err
		}
		if at, err := placeOf(path); err != nil || at == root {
			return err
		}
		held, err := heldIn(path)
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dataDir, path) // it lies beneath
		switch {
		case strings.Contains(name, "/"):
			return fault.WithHint(fault.New(fault.Conflict, "put a backup back into", dataDir,
				"something is mounted at "+path), "unmount it")
		case held != "":
			return fault.WithHint(fault.New(fault.Conflict, "put a backup back into", dataDir,
				fmt.Sprintf("%s is a file system of its own, and holds %s", path, held)),
				"nothing of it is removed: it may be the node's own. Unmount it, or move away what is in it, and run the "+
					"command again")
		}
		mounted = append(mounted, name)
		return fs.SkipDir
	})
	return mounted, err
}

// heldIn names what lies in a directory; empty: nothing that is anybody's.
func heldIn(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", fault.Wrap(err, fault.Internal, "read", dir)
	}
	var names []string
	for _, e := range entries {
		if e.Name() != "lost+found" {
			names = append(names, e.Name())
		}
	}
	return strings.Join(names, ", "), nil
}

// partOf is the part of a data directory in which a path beneath it lies: a mounted directory, or empty.
func partOf(rel string, mounted []string) string {
	first, _, _ := strings.Cut(rel, "/")
	if slices.Contains(mounted, first) {
		return first
	}
	return ""
}
