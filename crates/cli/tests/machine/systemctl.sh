#!/bin/sh
# A systemctl for tests. Units are folders of fake/: load, group, transient; a file named as a property holds its value in memory.
# It reads unit files and drop-ins, and makes drop-ins, as systemd does. Files in fake/ make it refuse, or kill its caller.
R=$(cd "$(dirname "$0")/../.." && pwd)
runtime=
while :; do
    case "$1" in
        --runtime) runtime=yes; shift ;;
        --*) shift ;;
        *) break ;;
    esac
done
verb=$1
[ $# -gt 0 ] && shift
echo "$verb $*" >>"$R/fake/calls"

killed_at() { if [ -e "$R/fake/kill-$1" ]; then kill -9 "$PPID"; exit 9; fi; }

# Drop-ins of a unit: of one name the first folder wins, and they are read by name.
drop_ins() {
    for folder in etc/systemd/system.control run/systemd/system.control run/systemd/transient etc/systemd/system; do
        for file in "$R/$folder/$1.d"/*.conf; do
            if [ -e "$file" ]; then echo "${file##*/} $file"; fi
        done
    done | sort -s -u -k1,1 | cut -d' ' -f2-
}

# What the files say about a property of a unit.
in_files() {
    value=$(cat "$R/etc/systemd/system/$1" $(drop_ins "$1") 2>/dev/null | sed -n "s/^ *$2 *= *//p" | tail -n 1)
    echo "${value:-infinity}"
}

held() {
    if [ ! -e "$R/fake/$1/$2" ]; then in_files "$1" "$2" >"$R/fake/$1/$2"; fi
    cat "$R/fake/$1/$2"
}

# Puts the properties that are held into the group.
realise() {
    group=$R/sys/fs/cgroup$(cat "$R/fake/$1/group")
    if [ -s "$R/fake/$1/group" ] && [ -d "$group" ]; then
        held "$1" MemoryHigh | sed 's/infinity/max/' >"$group/memory.high"
        held "$1" MemoryMax | sed 's/infinity/max/' >"$group/memory.max"
    fi
}

case "$verb" in
    show)
        unit=$2
        echo "Id=$unit"
        if [ ! -d "$R/fake/$unit" ]; then
            echo LoadState=not-found
            echo MemoryHigh=infinity
            echo MemoryMax=infinity
            exit 0
        fi
        echo "LoadState=$(cat "$R/fake/$unit/load")"
        echo "Transient=$(cat "$R/fake/$unit/transient")"
        echo "ControlGroup=$(cat "$R/fake/$unit/group")"
        echo "DropInPaths=$(drop_ins "$unit" | sed "s|^$R||" | tr '\n' ' ')"
        echo "MemoryHigh=$(held "$unit" MemoryHigh)"
        echo "MemoryMax=$(held "$unit" MemoryMax)"
        ;;
    set-property)
        unit=$1 property=${2%%=*} value=${2#*=}
        if [ -e "$R/fake/refuse" ]; then
            cat "$R/fake/refuse" >&2
            exit 1
        fi
        killed_at before
        folder=etc/systemd/system.control
        [ -n "$runtime" ] && folder=run/systemd/system.control
        [ "$(cat "$R/fake/$unit/transient")" = yes ] && folder=run/systemd/transient
        mkdir -p "$R/$folder/$unit.d"
        {
            echo '# This is a drop-in unit file extension, created via "systemctl set-property"'
            echo '# or an equivalent operation. Do not edit.'
            echo '[Service]'
            echo "$property=$value"
        } >"$R/$folder/$unit.d/50-$property.conf"
        echo "$value" >"$R/fake/$unit/$property"
        if [ ! -e "$R/fake/idle" ]; then realise "$unit"; fi
        killed_at after
        ;;
    daemon-reload)
        killed_at reload
        for folder in "$R"/fake/*/; do
            unit=$(basename "$folder")
            rm -f "$folder/MemoryHigh" "$folder/MemoryMax"
            realise "$unit"
        done
        ;;
    restart)
        group=$R/sys/fs/cgroup$(cat "$R/fake/$1/group")
        mv "$group" "$group.old"
        cp -r "$group.old" "$group"
        rm -r "$group.old"
        realise "$1"
        ;;
    *)
        echo "unknown verb $verb" >&2
        exit 1
        ;;
esac
