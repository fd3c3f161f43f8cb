package raftlog

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/raft-wal/fs"
)

// Given a file of the log, when it is made, then it has its length and its room: a disk that is full later takes what
// was promised.
func TestAFileOfTheLogHasItsBlocksFromTheBeginning(t *testing.T) {
	const size = 1 << 20
	f, err := fs.New().Create(t.TempDir(), "segment", size)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var st syscall.Stat_t
	if err := syscall.Stat(f.(*fs.File).Name(), &st); err != nil {
		t.Fatal(err)
	}
	if st.Size != size || st.Blocks*512 < size {
		t.Errorf("it has %d bytes, and %d blocks of 512", st.Size, st.Blocks)
	}
}

// Given a program with the log, then it has opened no socket by which others could reach it: one without a file is open
// to all that share its network, tasks too.
func TestTheLogBringsNoSocket(t *testing.T) {
	own := map[string]bool{}
	fds, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil { // it may have been closed
			own[to] = true
		}
	}
	list, err := os.ReadFile("/proc/self/net/unix")
	if err != nil {
		t.Fatal(err)
	}
	const inode, name = 6, 7
	for line := range strings.Lines(string(list)) {
		if f := strings.Fields(line); len(f) > name && own[fmt.Sprintf("socket:[%s]", f[inode])] {
			t.Errorf("it has the socket %s", f[name])
		}
	}
}
