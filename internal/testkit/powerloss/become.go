package powerloss

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"berth/internal/testkit/powerloss/disk"

	"golang.org/x/sys/unix"
)

// becomeEnv has a test program become the disk of another; it holds a setup.
const becomeEnv = "BERTH_TEST_POWERLOSS"

type setup struct {
	Dir   string
	Seed  uint64
	Cuts  int // 0: at every point
	Draws int // at a point
	Delay time.Duration
}

// question and answer are what a test and its disk say to each other, a line each.
type question struct {
	What string
	Draw int
	Dir  string
}

type answer struct {
	Err  string
	Cuts []Cut
}

// A program that imports this package is a disk when it is started to be one: that needs nothing of its TestMain.
func init() {
	text := os.Getenv(becomeEnv)
	if text == "" {
		return
	}
	var s setup
	err := json.Unmarshal([]byte(text), &s)
	if err == nil {
		err = become(s)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "the disk of a test:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// become serves a disk until nobody asks any more.
func become(s setup) error {
	p := &picker{setup: s, rng: rand.New(rand.NewPCG(s.Seed, 0)), images: map[int]*disk.Image{}}
	p.fs = disk.New(p.point)
	var syncs atomic.Uint64
	delay := func() time.Duration {
		if s.Delay <= 0 {
			return 0
		}
		return rand.N(s.Delay) * time.Duration(syncs.Add(1)%2) // every second one is slow
	}
	mounted, err := fuse.NewServer(newServer(p.fs, delay), s.Dir, &fuse.MountOptions{
		AllowOther:         true,
		Options:            []string{"default_permissions"},
		DirectMountStrict:  true,
		DirectMountFlags:   unix.MS_MGC_VAL, // devices and all: it is a disk
		FsName:             "powerloss",
		Name:               "powerloss",
		DisableReadDirPlus: true,
		MaxWrite:           1 << 20,
	})
	if err != nil {
		return err
	}
	defer func() { _ = unix.Unmount(s.Dir, unix.MNT_DETACH) }() // where the test could not
	go mounted.Serve()                                          // ends with the process
	if err := mounted.WaitMount(); err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(answer{}); err != nil {
		return err
	}
	in := json.NewDecoder(os.Stdin)
	for {
		var q question
		if err := in.Decode(&q); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := out.Encode(p.answer(q)); err != nil {
			return err
		}
	}
}

// picker picks the points at which the power is cut: each point is as likely as any other.
type picker struct {
	setup
	fs     *disk.FS
	rng    *rand.Rand
	points int
	draws  int
	acked  int
	cuts   []Cut
	images map[int]*disk.Image // by the number of the draw
}

// point is called before each change of the disk, with its lock held.
func (p *picker) point(op string) {
	p.points++
	for range p.Draws {
		p.draws++
		if p.Cuts == 0 || len(p.cuts) < p.Cuts {
			p.cuts = append(p.cuts, p.cut(op))
		} else if i := p.rng.IntN(p.draws); i < p.Cuts {
			delete(p.images, p.cuts[i].Draw)
			p.cuts = append(append(p.cuts[:i], p.cuts[i+1:]...), p.cut(op))
		}
	}
}

// cut takes an image. Of three, one has nothing of what was not synced.
func (p *picker) cut(op string) Cut {
	rng := rand.New(rand.NewPCG(p.Seed, uint64(p.draws)))
	rest := "some of what was not synced being there"
	if rng.IntN(3) == 0 {
		rng = nil
		rest = "nothing being there that was not synced"
	}
	p.images[p.draws] = p.fs.Draw(rng)
	return Cut{
		N:     p.points,
		Draw:  p.draws,
		Point: op,
		Acked: p.acked,
		Rest:  rest,
	}
}

func (p *picker) answer(q question) (a answer) {
	switch q.What {
	case "ack":
		p.fs.Do(func() { p.acked++ })
	case "cuts":
		p.fs.Do(func() {
			p.points++
			p.draws++
			p.images[p.draws] = p.fs.Draw(nil)
			last := Cut{
				N:     p.points,
				Draw:  p.draws,
				Point: "end",
				Acked: p.acked,
				Rest:  "nothing being there that was not synced",
			}
			a.Cuts = append(append(a.Cuts, p.cuts...), last)
		})
	case "write":
		var im *disk.Image
		p.fs.Do(func() { im = p.images[q.Draw] })
		if im == nil {
			return answer{Err: fmt.Sprintf("nothing was drawn as number %d", q.Draw)}
		}
		if err := im.Write(q.Dir); err != nil {
			return answer{Err: err.Error()}
		}
	default:
		return answer{Err: fmt.Sprintf("%q is not known", q.What)}
	}
	return a
}
