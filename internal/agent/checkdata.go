package agent

import (
	"context"
	"errors"
	"fmt"
	"os"

	"berth/internal/agent/datadir"
	"berth/internal/agent/stores"
	"berth/internal/base/fault"
	"berth/internal/base/storecheck"
)

// CheckData reads every store of a data directory that no agent uses, and reports what is damaged. It changes nothing.
// What the bundled plugin keeps there is its own to check, in the directory that is returned. One that a start of this
// user's would refuse is damaged by that alone, and nothing in it is opened; then the directory returned is empty. One
// that no agent has begun to use is NotFound.
func CheckData(dataDir string) (r *storecheck.Report, volumes string, err error) {
	c := &Config{DataDir: dataDir}
	if err := c.resolve(); err != nil {
		return nil, "", err
	}
	if st, err := os.Stat(c.DataDir); err != nil || !st.IsDir() {
		return nil, "", fault.WithHint(fault.New(fault.NotFound, "check", c.DataDir, "it is no directory"),
			"name the data_dir of an agent")
	}
	uid := os.Geteuid()
	release, refused, err := datadir.Hold(c.DataDir, uid)
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, release()) }()
	if err := datadir.Used(c.DataDir); err != nil && refused == nil {
		return nil, "", err
	}
	node := c.identity()
	r = &storecheck.Report{DataDir: c.DataDir, Whole: true}
	if refused != nil {
		r.Add(storecheck.Store{
			Name:   "directory",
			Path:   c.DataDir,
			Holds:  "not looked at: no agent starts on it",
			Damage: storecheck.Texts(refused),
		})
		return r, "", nil
	}
	own := fmt.Sprintf("what user %d alone can change", uid)
	r.Add(storecheck.Store{Name: "directory", Path: c.DataDir, Holds: own})
	stores.Check(context.Background(), r, node)
	return r, node.Volumes[0], nil
}
