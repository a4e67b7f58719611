#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A sample for `driver: {kind: exec}`, which passes the whole contract. Its machines are
# processes of this host that do nothing: put what switches yours on and off in their place.
# What each verb has to do is in README.md beside this file. It needs Linux, flock and setsid.
#
#   machines.sh DIR VERB [INSTANCE]     both paths in full
#
#   DIR/inventory.json       what the host has; yours to write
#       .lock.INSTANCE       held by the one call that changes the machine
#       .gone.INSTANCE       about to be removed
#       INSTANCE/machine     the first line that prepare has read; list gives it back
#                request     the second: what the machine is made of
#                prepared    there is nothing more to prepare
#                begin       held while a run begins
#                run.N       number, start and boot of the process of its run N; run.1 is the launch
#                why         why it is stopped
#                console     what it has printed
#                wake        what it waits for, and nobody writes
set -eu
umask 077

fail() { # STATUS MESSAGE; 65 is the request's fault, 66 that of an image on this host, anything else this host's
    echo "$2" >&2
    exit "$1"
}

[ $# -ge 2 ] || fail 64 "usage: $0 DIR VERB [INSTANCE]"
dir=$1 verb=$2 id=${3-}
home=$dir/$id
[ -d "$dir" ] || fail 1 "there is no folder $dir"
# Without it no run that lives is known from one that is over.
read -r boot </proc/sys/kernel/random/boot_id || fail 1 "/proc/sys/kernel/random/boot_id cannot be read"

# number FIELD JSON: a field that is a number.
number() {
    rest=${2#*\"$1\":}
    echo "${rest%%[!0-9-]*}"
}

# alone: Berth makes one call at a time for an instance, but what an agent that died has left
# behind may still be at work. The file goes with the call that holds it, so one looks whether
# what one holds is still there.
alone() {
    until [ "$dir/.lock.$id" -ef "/proc/$$/fd/9" ]; do
        exec 9>"$dir/.lock.$id"
        flock 9
    done
    trap 'rm -f "$dir/.lock.$id"' EXIT
    settled
}

# settled: no run is about to begin.
settled() {
    [ ! -e "$home/begin" ] || flock "$@" "$home/begin" true
}

# born PID: when a living process began; another one with its number began at another time.
born() {
    read -r stat 2>/dev/null <"/proc/$1/stat" || return 1
    set -- ${stat##*) }
    [ "$1" != Z ] && [ "$1" != X ] || return 1
    shift 19
    echo "$1 $boot"
}

# last: how many runs were begun.
last() {
    n=0
    while [ -e "$home/run.$((n + 1))" ]; do n=$((n + 1)); done
    echo $n
}

# alive N: the process of run N lives; pid is its number.
alive() {
    read -r pid since 2>/dev/null <"$home/run.$1" && [ -n "$since" ] && [ "$(born "$pid")" = "$since" ]
}

# begin: the next run, begun when this returns. Its process holds a lock until it has written
# down that it runs, and so whoever takes that lock knows whether it does, also if this call is
# killed here.
begin() {
    n=$(($(last) + 1))
    cd "$home"
    exec 8>begin
    flock 8
    setsid "$0" "$dir" process "$id" "$n" </dev/null >>console 2>&1 9>&- &
    exec 8>&-
    settled
    [ -e "run.$n" ] || fail 1 "its process ended at once: $(tail -n 1 console)"
}

# halt GRACE_MS: no process lives when this returns.
halt() {
    n=$(last)
    alive "$n" || return 0
    why="the guest was cut off"
    if [ "$1" -gt 0 ]; then
        left=$1
        while [ "$left" -gt 0 ] && alive "$n"; do
            kill -s TERM "$pid" || : # again: one that comes just before the guest's read is heeded only after that
            sleep 0.05
            left=$((left - 50))
        done
        alive "$n" || why="the guest shut down"
    fi
    while alive "$n"; do
        kill -s KILL "$pid" || :
        sleep 0.02
    done
    echo "$why" >"$home/why"
}

case $verb in
capabilities)
    echo '{"version":1,"soft_stop":true,"console":true,"foreign":false,"detail":"a sample"}'
    ;;

inventory)
    cat "$dir/inventory.json"
    ;;

list)
    printf '{"version":1,"machines":['
    comma=
    for home in "$dir"/*/; do
        home=${home%/}
        tries=10 # what comes between the read and the look, or goes and comes again, is read at the next try
        until { IFS= read -r machine <"$home/machine" && settled -s; } 2>/dev/null; do
            [ -e "$home/machine" ] || continue 2 # it comes, or goes
            tries=$((tries - 1))
            [ $tries -gt 0 ] || fail 1 "cannot read $home" # all, or no answer
        done
        state=preparing power=stopped detail= code=
        if [ -e "$home/run.1" ]; then
            state=launched
            if alive "$(last)"; then
                power=running
            else
                code=StoppedByCommand
                read -r detail 2>/dev/null <"$home/why" || detail="its process is dead, and not by command" code=MachineKilled
            fi
        elif [ -e "$home/prepared" ]; then
            state=prepared
        fi
        printf '%s{"machine":%s,"state":"%s","power":"%s","why":"%s","detail":"%s"}' "$comma" "$machine" $state $power "$code" "$detail"
        comma=,
    done
    echo ']}'
    ;;

prepare)
    IFS= read -r machine
    IFS= read -r request
    alone
    image=${request#'{"image":"'}
    image=${image%%\"*}
    case $image in
    tiny | deaf) ;;
    *) fail 65 "no such image: $image; there are tiny and deaf" ;;
    esac
    [ ! -e "$home/run.1" ] || fail 1 "$id was launched here"
    rm -rf "$home"
    mkdir "$home"
    printf '%s\n' "$machine" >"$home/.machine"
    mv "$home/.machine" "$home/machine"
    printf '%s\n' "$request" >"$home/request"
    echo "$image" >"$home/image"
    : >"$home/console"
    mkfifo "$home/wake"
    sync "$home/machine" "$home" # it has to be there after a power cut
    : >"$home/prepared"
    ;;

launch)
    alone
    [ -e "$home/prepared" ] || fail 1 "$id is not prepared here"
    [ -e "$home/run.1" ] || begin
    ;;

stop | start | reboot)
    [ $verb = start ] || read -r how
    alone
    [ -e "$home/run.1" ] || fail 1 "$id was not launched here"
    [ $verb = start ] || halt "$(number grace_ms "$how")"
    if [ $verb != stop ] && ! alive "$(last)"; then
        rm -f "$home/why"
        begin
    fi
    ;;

destroy)
    alone
    rm -rf "$dir/.gone.$id"
    if [ -d "$home" ]; then
        halt 0
        mv "$home" "$dir/.gone.$id" # half of it would look like another machine
        rm -rf "$dir/.gone.$id"
    fi
    ;;

console)
    read -r what
    offset=$(number offset "$what") limit=$(number limit "$what") end=$(wc -c <"$home/console")
    [ "$offset" -ge 0 ] || offset=$((end + offset))
    [ "$offset" -ge 0 ] || offset=0
    [ "$offset" -le "$end" ] || offset=$end
    [ "$limit" -le $((end - offset)) ] || limit=$((end - offset))
    data=$(tail -c "+$((offset + 1))" "$home/console" | head -c "$limit" | base64 -w 0)
    echo "{\"version\":1,\"offset\":$offset,\"data\":\"$data\",\"end\":$end}"
    ;;

# What follows are the machines themselves, not verbs of Berth's.

process)
    read -r image <image
    [ "$image" != deaf ] || trap '' TERM
    echo "$$ $(born $$)" >.run
    mv .run "run.$4"
    exec "$0" "$dir" guest "$id" "$4" 8>&-
    ;;

guest)
    exec 3<>wake # a read of it waits for ever, without a process more
    read -r image <image
    [ "$image" = deaf ] || trap 'trap "" TERM; echo "the guest shut down"; exit 0' TERM
    echo "run $4 of $id"
    while :; do read -r word <&3 || :; done
    ;;

*)
    fail 64 "no such verb: $verb"
    ;;
esac
