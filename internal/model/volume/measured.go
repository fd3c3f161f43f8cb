package volume

import "time"

// Amount counts bytes or inodes. Used and Available are 0 where the plugin does not tell them, as of raw blocks.
type Amount struct{ Total, Used, Available int64 }

// Condition is what is said of a volume's health. It is shown, and decides nothing (CSI spec, VolumeCondition).
type Condition struct {
	Abnormal bool
	Message  string
	Seen     bool // by the node, whatever the plugin says: its file system is dead, or nothing speaks against it
}

// Measured is what a node's plugin said last of a volume that is published there, and in which condition the node sees
// it. A nil part was not told.
type Measured struct {
	Bytes, Inodes *Amount
	Condition     *Condition
	At            time.Time // of that answer; zero: there was none
	Error         string    // why there was no newer one; empty: it is the newest
}
