package blocktrace

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// event is where the kernel puts the facts of a request in a record of one of its tracepoints. The layout is not fixed:
// every kernel describes its own (Documentation/trace/events.rst).
type event struct {
	id                         uint64
	sector, count, device, ops field
}

type field struct{ offset, size int }

// readFormat asks the kernel for the layout of a tracepoint of block devices. The file system that says so is mounted
// for this process alone, at no path.
func readFormat(tracepoint string) (event, error) {
	file := "events/block/" + tracepoint + "/format"
	fs, err := unix.Fsopen("tracefs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return event{}, fmt.Errorf("open tracefs: %w", err)
	}
	defer unix.Close(fs)
	if err := unix.FsconfigCreate(fs); err != nil {
		return event{}, fmt.Errorf("set tracefs up: %w", err)
	}
	root, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_RDONLY)
	if err != nil {
		return event{}, fmt.Errorf("mount tracefs: %w", err)
	}
	defer unix.Close(root)
	fd, err := unix.Openat(root, file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return event{}, fmt.Errorf("open %s of tracefs: %w", file, err)
	}
	f := os.NewFile(uintptr(fd), file)
	defer f.Close()
	e, err := parseFormat(f)
	if err != nil {
		return event{}, fmt.Errorf("%s of tracefs: %w", file, err)
	}
	return e, nil
}

func parseFormat(r io.Reader) (event, error) {
	var e event
	fields := map[string]field{}
	for s := bufio.NewScanner(r); s.Scan(); {
		line := strings.TrimSpace(s.Text())
		if _, err := fmt.Sscanf(line, "ID: %d", &e.id); err == nil {
			continue
		}
		declared, rest, ok := strings.Cut(strings.TrimPrefix(line, "field:"), ";")
		var at field
		_, err := fmt.Sscanf(strings.TrimSpace(rest), "offset:%d; size:%d;", &at.offset, &at.size)
		if !ok || err != nil {
			continue
		}
		words := strings.Fields(declared)
		name, _, _ := strings.Cut(words[len(words)-1], "[")
		fields[name] = at
	}
	e.device, e.sector = fields["dev"], fields["sector"]
	e.count, e.ops = fields["nr_sector"], fields["rwbs"]
	if e.id == 0 || e.device.size != 4 || e.sector.size != 8 || e.count.size != 4 || e.ops.size < 2 {
		return event{}, fmt.Errorf("its form is not known: %v", fields)
	}
	return e, nil
}

// request is one to a device, in units of 512 bytes.
type request struct{ sector, count uint64 }

// parse reads the raw data of a record; writes is false where the request reads, or carries nothing.
func (e event) parse(raw []byte) (r request, writes bool, err error) {
	if len(raw) < max(e.sector.offset+8, e.count.offset+4, e.ops.offset+e.ops.size) {
		return request{}, false, errGap
	}
	ops, _, _ := bytes.Cut(raw[e.ops.offset:e.ops.offset+e.ops.size], []byte{0})
	r = request{
		sector: binary.NativeEndian.Uint64(raw[e.sector.offset:]),
		count:  uint64(binary.NativeEndian.Uint32(raw[e.count.offset:])),
	}
	return r, r.count > 0 && bytes.IndexByte(ops, 'R') < 0, nil
}
