// Package mounter owns single system calls on mounts that somebody else made and that may hang: it is the "mount" role
// of the helper program. A process of its own can be given up when the kernel does not answer; a thread of the agent
// cannot. The result is one JSON object on standard output.
//
//	berth-helper mount [-deadline=D] umount PATH       never follows a link, never lazy
//	berth-helper mount [-deadline=D] umount-lazy PATH  detaches now, lets go when the last user is gone
//	berth-helper mount [-deadline=D] statfs PATH
//	berth-helper mount [-deadline=D] bind [ro]         source is descriptor 3, target descriptor 4
//
// {"ok":true,…} with exit code 0; {"ok":false,"errno":N,"error":"…"} with 1; 2 for wrong use; {"ok":false,"timeout":true,…}
// with 124 when the deadline passed.
package mounter

import (
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Exit codes.
const (
	exitDone     = 0
	exitFailed   = 1
	exitUsage    = 2
	exitDeadline = 124
)

const usage = "usage: berth-helper mount [-deadline=10s] umount|umount-lazy|statfs PATH, or bind [ro] with descriptors 3 and 4\n"

// field is one member of the result.
type field struct {
	name  string
	value string // JSON
}

// Run carries out one verb and returns the exit code.
func Run(args []string, out, usageTo io.Writer) int {
	deadline := time.Duration(0)
	if len(args) > 0 && strings.HasPrefix(args[0], "-deadline=") {
		d, err := time.ParseDuration(strings.TrimPrefix(args[0], "-deadline="))
		if err != nil || d <= 0 {
			return say(usageTo, usage, exitUsage)
		}
		deadline, args = d, args[1:]
	}
	if len(args) == 0 {
		return say(usageTo, usage, exitUsage)
	}
	if deadline > 0 {
		timer := time.AfterFunc(deadline, func() {
			os.Exit(say(out, object(field{"ok", "false"}, field{"timeout", "true"}, field{"error", quote("no answer from the kernel within " + deadline.String())}), exitDeadline))
		})
		defer timer.Stop()
	}
	fields, err := do(args)
	switch {
	case errors.Is(err, errUsage):
		return say(usageTo, usage, exitUsage)
	case err != nil:
		var no unix.Errno
		errors.As(err, &no)
		return say(out, object(field{"ok", "false"}, field{"errno", strconv.Itoa(int(no))}, field{"error", quote(err.Error())}), exitFailed)
	}
	return say(out, object(append([]field{{"ok", "true"}}, fields...)...), exitDone)
}

var errUsage = errors.New("wrong use")

func do(args []string) ([]field, error) {
	verb, rest := args[0], args[1:]
	switch {
	case verb == "umount" && len(rest) == 1:
		return nil, unix.Unmount(rest[0], unix.UMOUNT_NOFOLLOW)
	case verb == "umount-lazy" && len(rest) == 1:
		return nil, unix.Unmount(rest[0], unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH)
	case verb == "statfs" && len(rest) == 1:
		return statfs(rest[0])
	case verb == "bind" && (len(rest) == 0 || len(rest) == 1 && rest[0] == "ro"):
		return nil, bind(len(rest) == 1)
	}
	return nil, errUsage
}

func statfs(path string) ([]field, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return nil, err
	}
	u := func(name string, v uint64) field { return field{name, strconv.FormatUint(v, 10)} }
	return []field{u("type", uint64(st.Type)), u("block_size", uint64(st.Bsize)), u("blocks", st.Blocks), u("blocks_free", st.Bfree),
		u("blocks_available", st.Bavail), u("inodes", st.Files), u("inodes_free", st.Ffree)}, nil
}

// bind mounts descriptor 3 on descriptor 4: what was opened and checked is what is mounted.
func bind(readOnly bool) error {
	tree, err := unix.OpenTree(3, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_EMPTY_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	if readOnly {
		if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
			return err
		}
	}
	return unix.MoveMount(tree, "", 4, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

func say(w io.Writer, text string, code int) int {
	if _, err := io.WriteString(w, text); err != nil && code == exitDone {
		return exitFailed // who cannot read the result must not believe in it
	}
	return code
}

func object(fields ...field) string {
	var b strings.Builder
	for i, f := range fields {
		b.WriteString(map[bool]string{true: "{", false: ","}[i == 0] + quote(f.name) + ":" + f.value)
	}
	return b.String() + "}\n"
}

// quote makes a JSON text. Bytes that are no UTF-8 become the replacement character.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ':
			b.WriteString(`\u00` + string("0123456789abcdef"[r>>4]) + string("0123456789abcdef"[r&15]))
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
