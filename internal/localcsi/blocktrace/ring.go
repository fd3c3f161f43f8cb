package blocktrace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ringBytes is how much one processor may record between two looks: some 1,800 requests.
const ringBytes = 128 << 10

// margin is more than one record takes. A ring that had less free may have lost one.
const margin = 4 << 10

// ring holds what one processor records of one tracepoint (perf_event_open(2)).
type ring struct {
	event event
	fd    int
	page  []byte // the kernel's page about the ring, and the ring behind it
}

func openRing(cpu int, e event, filter string) (*ring, error) {
	attr := &unix.PerfEventAttr{
		Type:        unix.PERF_TYPE_TRACEPOINT,
		Size:        uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Config:      e.id,
		Sample:      1, // each
		Sample_type: unix.PERF_SAMPLE_RAW,
		Bits:        unix.PerfBitDisabled,
	}
	fd, err := unix.PerfEventOpen(attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("listen to requests of processor %d: %w", cpu, err)
	}
	r := &ring{event: e, fd: fd}
	if err := r.begin(filter); err != nil {
		return nil, errors.Join(fmt.Errorf("listen to requests of processor %d: %w", cpu, err), r.close())
	}
	return r, nil
}

func (r *ring) begin(filter string) (err error) {
	if r.page, err = unix.Mmap(r.fd, 0, os.Getpagesize()+ringBytes, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED); err != nil {
		return fmt.Errorf("map its ring: %w", err)
	}
	text, err := unix.BytePtrFromString(filter)
	if err != nil {
		return err
	}
	if _, _, no := unix.Syscall(unix.SYS_IOCTL, uintptr(r.fd), unix.PERF_EVENT_IOC_SET_FILTER,
		uintptr(unsafe.Pointer(text))); no != 0 {
		return fmt.Errorf("have it filter %q: %w", filter, no)
	}
	return unix.IoctlSetInt(r.fd, unix.PERF_EVENT_IOC_ENABLE, 0)
}

func (r *ring) close() error {
	var err error
	if r.page != nil {
		err = unix.Munmap(r.page)
	}
	return errors.Join(err, unix.Close(r.fd))
}

// Offsets in the kernel's page about a ring (struct perf_event_mmap_page of linux/perf_event.h).
const (
	headOffset = 1024
	tailOffset = 1032
)

var errGap = errors.New("the kernel recorded more writes than were read in time")

// drain hands on the raw data of each record since the last drain.
func (r *ring) drain(each func(raw []byte) error) error {
	head := (*atomic.Uint64)(unsafe.Pointer(&r.page[headOffset]))
	tail := (*atomic.Uint64)(unsafe.Pointer(&r.page[tailOffset]))
	end, at := head.Load(), tail.Load()
	if end-at > ringBytes-margin {
		return errGap
	}
	for at < end {
		header := r.bytes(at, 8)
		kind, size := binary.NativeEndian.Uint32(header), uint64(binary.NativeEndian.Uint16(header[6:]))
		if size < 8 || size > end-at {
			return errGap
		}
		// Of all other kinds of records none is asked for but those that say that something was left out.
		if kind != unix.PERF_RECORD_SAMPLE {
			return errGap
		}
		sample := r.bytes(at+8, size-8)
		if len(sample) < 4 || int(binary.NativeEndian.Uint32(sample)) > len(sample)-4 {
			return errGap
		}
		if err := each(sample[4 : 4+binary.NativeEndian.Uint32(sample)]); err != nil {
			return err
		}
		at += size
	}
	tail.Store(end)
	return nil
}

// bytes copies from the ring, which has no end.
func (r *ring) bytes(at, n uint64) []byte {
	data := r.page[len(r.page)-ringBytes:]
	at %= ringBytes
	out := append(make([]byte, 0, n), data[at:min(at+n, ringBytes)]...)
	return append(out, data[:n-uint64(len(out))]...)
}
