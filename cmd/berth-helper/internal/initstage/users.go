package initstage

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/shimproto"
)

// actAs makes the files that this thread makes from now on belong to a user and a group of the node, without taking
// from it what root may. In a user namespace whose first user that is they are root's: in file systems that are made
// for the task, and, since what is mounted from the node is shifted back, there by the node's own numbers. The
// goroutine must be held on its thread.
func actAs(uid, gid uint32) error {
	for _, set := range []struct {
		id  uint32
		set func(int) (int, error)
	}{{gid, unix.SetfsgidRetGid}, {uid, unix.SetfsuidRetUid}} {
		if _, err := set.set(int(set.id)); err != nil {
			return fault.Wrap(err, fault.Internal, "act", "as an owner of files")
		}
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	err := unix.Capget(&head, &sets[0])
	if err == nil { // the kernel has taken from the effective set what is about files
		sets[0].Effective, sets[1].Effective = sets[0].Permitted, sets[1].Permitted
		err = unix.Capset(&head, &sets[0])
	}
	return fault.Wrap(err, fault.Internal, "act", "as an owner of files")
}

// actingAs does something as the owner of files, and is root of the task again afterwards. A thread that cannot be so
// again is thrown away with its goroutine.
func (r *root) actingAs(uid, gid uint32, do func() error) error {
	if uid == r.iso.FirstID && gid == r.iso.FirstID {
		return do() // it is
	}
	runtime.LockOSThread()
	err := actAs(uid, gid)
	if err == nil {
		err = do()
	}
	if back := actAs(r.iso.FirstID, r.iso.FirstID); back != nil {
		return errors.Join(err, back)
	}
	runtime.UnlockOSThread()
	return err
}

// shift makes a cloned tree show the node's users 0, 1 … as those of the task's namespace, and takes what the task
// writes there for them: on the disk there are the node's numbers. It returns the tree, or what stands for it: the node
// of a device is made anew, as the file systems of devices cannot be shifted. A tree of which a part cannot be shifted
// is refused, and closed.
func (r *root) shift(tree int, b *shimproto.Bind) (int, error) {
	defer func() {
		if tree >= 0 {
			_ = unix.Close(tree) // it was not attached
		}
	}()
	var st unix.Stat_t
	if err := unix.Fstat(tree, &st); err != nil {
		return -1, fault.Wrap(err, fault.Internal, "look at", quote(b.Source))
	}
	if k := st.Mode & unix.S_IFMT; k == unix.S_IFCHR || k == unix.S_IFBLK {
		return r.device(&st, b.Source)
	}
	if err := shiftTree(tree, r.users, true); err != nil {
		return -1, r.unshifted(b, err)
	}
	out := tree
	tree = -1
	return out, nil
}

func shiftTree(tree, users int, whole bool) error {
	flags := uint(unix.AT_EMPTY_PATH)
	if whole {
		flags |= unix.AT_RECURSIVE
	}
	a := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(users)}
	return unix.MountSetattr(tree, "", flags, a)
}

// device makes a device's node on a file system of its own, and returns it as a tree.
func (r *root) device(st *unix.Stat_t, source string) (int, error) {
	fail := func(err error) (int, error) {
		return -1, fault.Wrap(err, fault.Internal, "show", "device "+quote(source))
	}
	if st.Uid >= shimproto.IDs || st.Gid >= shimproto.IDs {
		return fail(fault.New(fault.Unsupported, "", "", "it belongs to a user or group above 65,535"))
	}
	small, err := fresh("tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, "mode=0755", "size=4k")
	if err != nil {
		return -1, err
	}
	defer unix.Close(small)
	const name = "device"
	if err := unix.Mknodat(small, name, st.Mode, int(st.Rdev)); err != nil {
		return fail(err)
	}
	first := r.iso.FirstID
	if err := unix.Fchownat(small, name, int(first+st.Uid), int(first+st.Gid), unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fail(err)
	}
	if err := unix.Fchmodat(small, name, st.Mode&0o777, 0); err != nil { // whatever the umask is
		return fail(err)
	}
	tree, err := unix.OpenTree(small, name, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return fail(err)
	}
	return tree, nil
}

// unshifted says which part of a tree cannot be shifted, and what can be done.
func (r *root) unshifted(b *shimproto.Bind, cause error) error {
	place, kind := b.Source, "its file system"
	if at, of := r.culprit(b.Source); of != "" {
		place, kind = at, "its file system, "+of+","
	}
	what := quote(b.Target) + " of the task from " + quote(place)
	if b.Volume != "" {
		what = b.Volume + " at " + what
	}
	return fault.WithHint(
		fault.New(fault.Unsupported, "mount", what,
			kind+" cannot show other numbers of users, as the task's user namespace needs it ("+cause.Error()+")"),
		"keep it on ext4, xfs, btrfs or tmpfs, or have the task run on a node without user_namespaces: the operator "+
			"is_not_set on ${attr.driver.exec.user_namespaces} finds one")
}

// culprit finds the first of the mounts at and below a path that cannot be shifted by itself.
func (r *root) culprit(source string) (place, kind string) {
	table, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return "", ""
	}
	best := ""
	for line := range strings.Lines(string(table)) {
		left, right, _ := strings.Cut(line, " - ")
		f, g := strings.Fields(left), strings.Fields(right)
		if len(f) < 5 || len(g) == 0 {
			continue
		}
		at := unescape.Replace(f[4])
		switch {
		case at == source || strings.HasPrefix(at, source+"/"):
		case at == "/" || strings.HasPrefix(source, at+"/"):
			if len(at) >= len(best) { // what the path itself lies on
				best, kind = at, g[0]
			}
			continue
		default:
			continue
		}
		tree, err := unix.OpenTree(unix.AT_FDCWD, at, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		if err != nil {
			continue
		}
		err = shiftTree(tree, r.users, false)
		_ = unix.Close(tree) // it was not attached
		if err != nil {
			return at, g[0]
		}
	}
	if source, err = filepath.EvalSymlinks(source); err != nil {
		return "", ""
	}
	return source, kind
}

// unescape undoes how the kernel writes what would end a field of the mount table.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// Probe tries whether trees of the node can be shown in a user namespace. Nothing is mounted.
func Probe(users *os.File, trees []string) error {
	r := &root{iso: &shimproto.Isolate{}, users: int(users.Fd())}
	secrets, err := fresh("tmpfs", 0)
	if err == nil {
		err = errors.Join(shiftTree(secrets, r.users, true), unix.Close(secrets))
	}
	if err != nil {
		return fault.WithHint(fault.Wrap(err, fault.Unsupported, "show", "a new tmpfs in a user namespace"),
			"Linux 6.3 or later is needed: secrets of tasks lie on such file systems")
	}
	for _, p := range trees {
		real, err := filepath.EvalSymlinks(p)
		if err != nil {
			continue // what is not there is not shown
		}
		if err := r.add(shimproto.Bind{Source: real, Target: p}, true); err != nil {
			return err
		}
	}
	return nil
}
