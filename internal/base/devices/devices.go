// Package devices owns the filter by which the kernel keeps the processes of a control group from device nodes: a
// program of its cgroup hook, written here by hand. It works in the v2 tree, also where that offers no controller. The
// helper program attaches it; drivers ask whether there is one.
package devices

import (
	"encoding/binary"
	"errors"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
)

// What can be done with a device node, as the kernel counts.
const (
	Make  = 1
	Read  = 2
	Write = 4
)

// Any is every number.
const Any = -1

// Rule allows something.
type Rule struct {
	Block        bool // else a character device
	Major, Minor int64
	Access       uint32
}

// Of reads "rwm"; empty is all that can be done with a node that is there.
func Of(permissions string) (access uint32, err error) {
	if permissions == "" {
		return Read | Write, nil
	}
	for _, c := range permissions {
		switch c {
		case 'r':
			access |= Read
		case 'w':
			access |= Write
		case 'm':
			access |= Make
		default:
			return 0, fault.WithHint(
				fault.New(fault.Invalid, "", "permissions of a device", "it is none of r, w and m"),
				"use rw, or r for a device that is only read")
		}
	}
	return access, nil
}

// Standard are the devices that every process may use: those of a minimal /dev, and terminals of its own.
func Standard() []Rule {
	var out []Rule
	for _, n := range [][2]int64{{1, 3}, {1, 5}, {1, 7}, {1, 8}, {1, 9}, {5, 0}, {5, 2}, {136, Any}} {
		out = append(out, Rule{Major: n[0], Minor: n[1], Access: Read | Write})
	}
	return out
}

// Numbers of bpf(2).
const (
	progLoad      = 5
	progAttach    = 8
	cgroupDevice  = 15 // the type of the program
	attachDevice  = 6  // the hook
	kindBlock     = 1
	kindCharacter = 2
)

// insn is one instruction, as the kernel has them.
type insn struct {
	code uint8
	regs uint8 // the source above the target
	off  int16
	imm  int32
}

// Opcodes.
const (
	loadWord   = 0x61 // target = *(u32 *)(source + off)
	move       = 0xbf
	moveNumber = 0xb7
	andNumber  = 0x57
	and        = 0x5f
	shiftRight = 0x77
	unlessNum  = 0x55 // jump if target != imm
	unless     = 0x5d // jump if target != source
	exit       = 0x95
)

func regs(target, source uint8) uint8 { return source<<4 | target }

// program allows what one of the rules allows, and nothing else. Registers: 2 the kind, 3 the access, 4 and 5 the
// numbers; 1 is free once they are read.
func program(rules []Rule) []insn {
	out := []insn{
		{code: loadWord, regs: regs(2, 1), off: 0},
		{code: loadWord, regs: regs(4, 1), off: 4},
		{code: loadWord, regs: regs(5, 1), off: 8},
		{code: move, regs: regs(3, 2)},
		{code: andNumber, regs: regs(2, 0), imm: 0xffff},
		{code: shiftRight, regs: regs(3, 0), imm: 16},
	}
	for _, r := range rules {
		kind := int32(kindCharacter)
		if r.Block {
			kind = kindBlock
		}
		body := []insn{
			{code: unlessNum, regs: regs(2, 0), imm: kind},
			{code: move, regs: regs(1, 3)},
			{code: andNumber, regs: regs(1, 0), imm: int32(r.Access)},
			{code: unless, regs: regs(1, 3)},
		}
		if r.Major >= 0 {
			body = append(body, insn{code: unlessNum, regs: regs(4, 0), imm: int32(r.Major)})
		}
		if r.Minor >= 0 {
			body = append(body, insn{code: unlessNum, regs: regs(5, 0), imm: int32(r.Minor)})
		}
		body = append(body, insn{code: moveNumber, imm: 1}, insn{code: exit})
		for i := range body {
			if c := body[i].code; c == unlessNum || c == unless {
				body[i].off = int16(len(body) - i - 1)
			}
		}
		out = append(out, body...)
	}
	return append(out, insn{code: moveNumber}, insn{code: exit})
}

// load gives a program to the kernel.
func load(rules []Rule) (int, error) {
	code := program(rules)
	license := []byte("Apache-2.0\x00")
	attr := make([]byte, 48)
	native := binary.NativeEndian
	native.PutUint32(attr[0:], cgroupDevice)
	native.PutUint32(attr[4:], uint32(len(code)))
	native.PutUint64(attr[8:], uint64(uintptr(unsafe.Pointer(&code[0]))))
	native.PutUint64(attr[16:], uint64(uintptr(unsafe.Pointer(&license[0]))))
	fd, err := bpf(progLoad, attr)
	runtime.KeepAlive(code)
	runtime.KeepAlive(license)
	return fd, err
}

func bpf(command uintptr, attr []byte) (int, error) {
	r, _, errno := unix.Syscall(unix.SYS_BPF, command, uintptr(unsafe.Pointer(&attr[0])), uintptr(len(attr)))
	if errno != 0 {
		return -1, errno
	}
	return int(r), nil
}

// Supported tells whether this kernel has such filters, and lets this process use them.
func Supported() bool {
	fd, err := load(nil)
	if err != nil {
		return false
	}
	return unix.Close(fd) == nil
}

// Confine lets the processes of a group of the v2 tree do with devices what the rules allow. A kernel without such
// filters is fault.Unsupported.
func Confine(group string, rules []Rule) error {
	fd, err := load(rules)
	if err != nil {
		return fault.Wrap(err, fault.Unsupported, "keep", "a task from devices")
	}
	dir, err := unix.Open(group, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return errors.Join(fault.Wrap(err, fault.Internal, "open", "cgroup "+group), unix.Close(fd))
	}
	attr := make([]byte, 16)
	native := binary.NativeEndian
	native.PutUint32(attr[0:], uint32(dir))
	native.PutUint32(attr[4:], uint32(fd))
	native.PutUint32(attr[8:], attachDevice)
	_, err = bpf(progAttach, attr)
	return errors.Join(fault.Wrap(err, fault.Unsupported, "keep", "a task from devices"), unix.Close(dir),
		unix.Close(fd))
}
