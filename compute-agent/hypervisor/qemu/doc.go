// SPDX-License-Identifier: Apache-2.0

// Package qemu runs machines as plain QEMU processes, without any daemon. Each
// has a folder; what is in it, and the processes there are, is all that is known:
//
//	<dir>/<instance>/machine.json  what it is and what was last done for it
//	                 lock          locked by the QEMU process, for as long as it lives
//	                 pid           QEMU's own; names the folder in its command line
//	                 qmp.sock      how it is asked and told
//	                 console.log   what the guest prints; console.old-<n> the part before
//	                 disk.qcow2    its disk, on top of the image
//	                 base.<format>, kernel, initrd  the image: links to copies in <dir>/.images
//	                 seed.iso      its cloud-init seed
//	                 qemu.log      what QEMU complains of; qemu.log.old the end of the part before
//
// Prepare starts the process with its processors stopped, Launch lets them go. A
// process belongs to no agent: it goes on when its agent ends and is found again
// by its command line.
//
//	                     process        machine.json
//	preparing            none           Ready false
//	prepared             prelaunch      Ready
//	launched, running    running        Launched, Wanted running
//	shut down by itself  shutdown       Launched, Wanted running
//	stopped by command   none           Launched, Wanted stopped
//	killed from outside  none           Launched, Wanted running
package qemu
