package hostile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Own is what the task itself has laid where others read.
const Own = "the task's own\n"

// Swapped is the file that is read while its directory is exchanged for a link to the node's /etc.
const Swapped = "alloc/data/swapped/passwd"

// swap exchanges a directory for a link, over and over.
func swap() error {
	dir, link := "/alloc/data/swapped", "/alloc/data/link"
	if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, "passwd"), []byte(Own), 0o600),
		os.Symlink("/etc", link), say(End)); err != nil {
		return err
	}
	for {
		if err := unix.Renameat2(unix.AT_FDCWD, dir, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE); err != nil {
			return err
		}
	}
}

// Seen begins what peek writes when it was asked to end: how many processes it has looked at.
const Seen = "processes seen: "

// peek looks at every process that appears beside the task, from its birth on, for a way out of the task's root and for
// a program that is the node's. Sessions are such processes. It ends when there is a file "stop".
func peek() error {
	var own unix.Stat_t
	if err := errors.Join(unix.Stat("/", &own), say(End)); err != nil {
		return err
	}
	seen, found := map[int]bool{}, map[string]bool{}
	self := os.Getpid()
	for {
		if _, err := os.Lstat("/alloc/data/stop"); err == nil {
			break
		}
		entries, err := os.ReadDir("/proc")
		if err != nil {
			return err
		}
		for _, e := range entries {
			pid, err := strconv.Atoi(e.Name())
			if err != nil || pid == 1 || pid == self {
				continue
			}
			seen[pid] = true
			for _, way := range out(pid, own) {
				found[way] = true
			}
		}
	}
	for way := range found {
		if err := say(Allowed + ": " + way); err != nil {
			return err
		}
	}
	return say(fmt.Sprint(Seen, len(seen)))
}

// out are the ways out of a task that a process beside it offers.
func out(pid int, own unix.Stat_t) (found []string) {
	dir := "/proc/" + strconv.Itoa(pid)
	var root unix.Stat_t
	if err := unix.Stat(dir+"/root", &root); err == nil && (root.Dev != own.Dev || root.Ino != own.Ino) {
		found = append(found, "another root")
	}
	if fd, err := unix.Open(dir+"/root/etc/shadow", unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
		_ = unix.Close(fd) // nothing is read
		found = append(found, "the node's shadow")
	}
	if exe, err := os.Readlink(dir + "/exe"); err == nil && strings.Contains(exe, "berth") {
		if fd, err := unix.Open(dir+"/exe", unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
			_ = unix.Close(fd)
			found = append(found, "the program "+exe)
		}
	}
	if fd, err := unix.Open(dir+"/mem", unix.O_RDWR|unix.O_CLOEXEC, 0); err == nil {
		if exe, err := os.Readlink(dir + "/exe"); err == nil && strings.Contains(exe, "berth") {
			found = append(found, "the memory of "+exe)
		}
		_ = unix.Close(fd)
	}
	files, _ := os.ReadDir(dir + "/fd") // most times it may not be read, or has gone
	for _, f := range files {
		if st, err := os.Stat(filepath.Join(dir, "fd", f.Name())); err == nil && st.IsDir() {
			found = append(found, "an open directory")
		}
	}
	return found
}

// ptmx puts something else where programs open terminals.
func ptmx() error {
	err := os.Remove("/dev/ptmx")
	if err == nil {
		err = os.Symlink("/alloc/data/terminal", "/dev/ptmx")
	}
	// It may not, and then the terminal of a session is the task's in any case.
	if err := os.WriteFile("/alloc/data/terminal", nil, 0o600); err != nil {
		return err
	}
	if err := errors.Join(say("/dev/ptmx: "+answer(err)), say(End)); err != nil {
		return err
	}
	time.Sleep(time.Hour) // sessions come meanwhile
	return nil
}
