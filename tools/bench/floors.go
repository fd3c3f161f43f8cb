package main

import (
	"context"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"
)

// floors measures what the machine itself takes, in the same run: without it no figure can be judged.
func floors(_ context.Context, r *report, _ string) error {
	f, err := os.CreateTemp("", "berth-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // it is empty but for this
	defer f.Close()
	block := make([]byte, 4096)
	var syncs, forks []float64
	for range 200 {
		begin := time.Now()
		if _, err := f.Write(block); err != nil {
			return err
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return err
		}
		syncs = append(syncs, ms(time.Since(begin)))
	}
	for range 100 {
		begin := time.Now()
		if err := exec.Command("/bin/true").Run(); err != nil {
			return err
		}
		forks = append(forks, ms(time.Since(begin)))
	}
	r.add(figure{name: "The machine: write 4 KiB and fdatasync", unit: "ms", samples: syncs})
	r.add(figure{name: "The machine: fork, exec and reap /bin/true", unit: "ms", samples: forks})
	return nil
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
