package spawn

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
)

// reach gives the thread a mount namespace in which a directory that only root may enter is covered, and one part of it
// lies on the cover at its own path. So no mode has to be widened for the child's user, on the node nothing is mounted,
// and what the directory holds of others is not there for it, whatever names it knows.
//
// The namespace follows what the node mounts and unmounts elsewhere, and nothing that happens in it reaches the node.
// It must not keep alive what is mounted in the directory for others: where the node's mounts do not propagate, a copy
// would stay when the node unmounts, and hold the device of a volume.
func (s *Spec) reach() error {
	if s.Reach == nil {
		return nil
	}
	dir, own := s.Reach.Dir, s.Reach.Own
	rel, err := filepath.Rel(dir, own)
	if err != nil || !filepath.IsLocal(rel) || rel == "." {
		return fault.New(fault.Invalid, "show", quote(own), "it does not lie in "+quote(dir))
	}
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return fault.Wrap(err, fault.Internal, "make", "a mount namespace")
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fault.Wrap(err, fault.Internal, "separate", "a mount namespace from the node's")
	}
	tree, err := unix.OpenTree(unix.AT_FDCWD, own,
		unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return fault.Wrap(err, fault.Internal, "clone the mounts at", quote(own))
	}
	defer unix.Close(tree)
	if err := leaveMounts(dir); err != nil {
		return err
	}
	const quiet = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := unix.Mount("tmpfs", dir, "tmpfs", quiet, "mode=0755,size=64k"); err != nil {
		return fault.Wrap(err, fault.Internal, "cover", quote(dir))
	}
	at := dir
	for part := range strings.SplitSeq(rel, "/") {
		at += "/" + part
		if err := errors.Join(unix.Mkdir(at, 0o755), unix.Chmod(at, 0o755)); err != nil { // whatever the umask is
			return fault.Wrap(err, fault.Internal, "make", quote(at)+" on the cover")
		}
	}
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, own, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fault.Wrap(err, fault.Internal, "show", quote(own))
	}
	return fault.Wrap(unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY|quiet, ""), fault.Internal, "seal",
		quote(dir))
}

// leaveMounts releases all that is mounted beneath a directory, in the thread's namespace alone.
func leaveMounts(dir string) error {
	table, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return fault.Wrap(err, fault.Internal, "read", "the mount table")
	}
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		path := mountEscapes.Replace(fields[4])
		if !strings.HasPrefix(path, dir+"/") {
			continue
		}
		// With one go all that is mounted beneath it, which then is none any more.
		err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			return fault.Wrap(err, fault.Internal, "release", quote(path))
		}
	}
	return nil
}

// mountEscapes are how the kernel writes what would end a field of the mount table.
var mountEscapes = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
