package collector

import (
	"bytes"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugePage is the size of one, in bytes, where the kernel does not say another: that of amd64, and of arm64 with pages
// of 4 KiB.
const hugePage = 2 << 20

// pages are where the heap grows next, as it is known when the program begins. What is read there at random, as large
// trees are, is found by far fewer of the processor's entries when it lies in huge pages. Go does not ask for them.
type pages struct{ from, size uintptr }

// theHeap is taken once: where something was, Go would write zeros first. Collections are spared until as much lives as
// may be spared, which is as large as the heap becomes by that.
var theHeap = sync.OnceValue(func() pages { return ahead(2 * spared()) })

// ahead has the heap take so many bytes and give them back, and asks for huge pages there: nothing is written to them,
// so that they take address space alone, and whatever is allocated next lies in them. Where address space is counted it
// asks for none.
func ahead(size uint64) pages {
	if size < 2*hugePage || counted() {
		return pages{}
	}
	p := pagesOf(make([]byte, size))
	p.advise(unix.MADV_HUGEPAGE)
	debug.FreeOSMemory()
	return p
}

// pagesOf are the huge pages that lie within a block as a whole.
func pagesOf(block []byte) pages {
	from := uintptr(unsafe.Pointer(unsafe.SliceData(block)))
	end := (from + uintptr(len(block))) &^ (hugePage - 1)
	from = (from + hugePage - 1) &^ (hugePage - 1)
	runtime.KeepAlive(block)
	return pages{from, end - from}
}

// advise tells the kernel what to do with them. It is advice: a kernel that has none does as before.
func (p pages) advise(what int) {
	if p.size > 0 {
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, p.from, p.size, uintptr(what))
	}
}

// counted reports whether address space that nobody uses may be refused, which would end the program, or somebody has
// said how much memory it may have.
func counted() bool {
	var r unix.Rlimit
	mode, err := os.ReadFile("/proc/sys/vm/overcommit_memory")
	const never = "2" // more than there is
	return err != nil || string(bytes.TrimSpace(mode)) == never ||
		unix.Getrlimit(unix.RLIMIT_AS, &r) != nil || r.Cur != unix.RLIM_INFINITY ||
		debug.SetMemoryLimit(-1) != math.MaxInt64
}
