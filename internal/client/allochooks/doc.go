// Package allochooks owns the steps before the first task of an alloc starts and after its last task has ended. The
// client's composition imports it; hooks know contracts, never engines.
package allochooks
