package helperbin

import (
	"debug/elf"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
)

// open gives the helper or ends the test with the way out.
func open(t *testing.T) *os.File {
	t.Helper()
	f, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func TestTheHelperIsAStaticProgramOfAtMostThreeMegabytes(t *testing.T) {
	f := open(t)
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if limit := int64(3 << 20); info.Size() > limit {
		t.Errorf("the helper has %d bytes, the limit is %d: a thousand of them run on a node", info.Size(), limit)
	}
	prog, err := elf.NewFile(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range prog.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("the helper needs a dynamic loader, which an isolated root may not have")
		}
	}
}

func TestTheFileCannotChange(t *testing.T) {
	f := open(t)
	if _, err := f.WriteAt([]byte("x"), 0); err == nil {
		t.Error("the file can be written through its descriptor")
	}
	if w, err := os.OpenFile(Path(f), os.O_RDWR, 0); err == nil {
		if _, err := w.WriteAt([]byte("x"), 0); err == nil {
			t.Error("the file can be written after it was opened anew")
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := unix.Ftruncate(int(f.Fd()), 0); err == nil {
		t.Error("the file can be cut")
	}
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFD, 0)
	if err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("the descriptor is inherited by every child: flags %d, %v", flags, err)
	}
}

// Given a child with files of any numbers around that of the program, when it is run, then it finds the program: the
// runtime moves descriptors aside above the largest, and one of those places may be the program's own.
func TestItRunsBesideFilesOfAnyNumber(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	program := open(t)
	high, err := unix.FcntlInt(program.Fd(), unix.F_DUPFD_CLOEXEC, 300)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(high), "program")
	defer f.Close()
	for below := 1; below <= 12; below++ {
		fd := high - below
		if err := unix.Dup3(int(null.Fd()), fd, unix.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
		file := os.NewFile(uintptr(fd), "file")
		p, err := os.StartProcess(Path(f), []string{"helper", "version"},
			&os.ProcAttr{Files: []*os.File{null, null, null, null, file}})
		if err != nil {
			t.Fatalf("a file %d below the program: %v", below, err)
		}
		if _, err := p.Wait(); err != nil {
			t.Error(err)
		}
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestAllOpensShareOneMemory(t *testing.T) {
	var a, b unix.Stat_t
	if err := unix.Fstat(int(open(t).Fd()), &a); err != nil {
		t.Fatal(err)
	}
	if err := unix.Fstat(int(open(t).Fd()), &b); err != nil {
		t.Fatal(err)
	}
	if a.Ino != b.Ino {
		t.Errorf("two opens made two memory files (%d and %d): helpers would not share pages", a.Ino, b.Ino)
	}
}

func TestAMissingHelperSaysHowToBuildIt(t *testing.T) {
	err := missing(os.ErrNotExist)
	if !strings.Contains(err.Error(), "make build") || !fault.Has(err, fault.Internal) {
		t.Errorf("the error does not teach: %v", err)
	}
}
