package blocktrace

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// count is what the kernel knows of a device beside what it records.
type count struct {
	binding string // changes whenever the device is bound to something else
	sectors uint64 // written to it, and discarded
}

// counted asks for both. It fails where the kernel does not count.
func counted(device [2]uint32) (count, error) {
	dir := fmt.Sprintf("/sys/dev/block/%d:%d", device[0], device[1])
	counts, err := os.ReadFile(filepath.Join(dir, "queue/iostats"))
	if err != nil {
		return count{}, err
	}
	if strings.TrimSpace(string(counts)) != "1" {
		return count{}, fmt.Errorf("%s/queue/iostats does not say 1: the kernel does not count what is written", dir)
	}
	binding, err := os.ReadFile(filepath.Join(dir, "diskseq"))
	if err != nil {
		return count{}, err
	}
	sectors, err := sectorsWritten(device)
	return count{binding: string(binding), sectors: sectors}, err
}

// sectorsWritten reads a line of Documentation/admin-guide/iostats.rst.
func sectorsWritten(device [2]uint32) (uint64, error) {
	const file = "/proc/diskstats"
	f, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	for s.Scan() {
		words := strings.Fields(s.Text())
		if len(words) < 18 || words[0] != fmt.Sprint(device[0]) || words[1] != fmt.Sprint(device[1]) {
			continue
		}
		written, err1 := strconv.ParseUint(words[9], 10, 64)
		discarded, err2 := strconv.ParseUint(words[16], 10, 64)
		return written + discarded, errors.Join(err1, err2)
	}
	return 0, errors.Join(s.Err(), fmt.Errorf("%s has no line of device %d:%d", file, device[0], device[1]))
}
