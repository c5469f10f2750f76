# How the recordings of this folder are made; part of ../make, which gives needs, record, sources, $here and a work folder.

# PostgreSQL in single-user mode: its server does not run under QEMU 7.2 (README). It refuses to run as root.
make_postgres() {
    PATH=$PATH:$(echo /usr/lib/postgresql/*/bin)
    needs initdb postgresql pgbench postgresql
    as=
    mkdir postgres
    if [ "$(id -u)" = 0 ]; then
        as="setpriv --reuid=nobody --regid=nogroup --clear-groups"
        chmod 711 .
        chown nobody postgres
    fi
    cd postgres
    (
        PGHOST=$PWD PGUSER=load
        export PGHOST PGUSER
        $as initdb -D data -A trust -N --no-locale -U load
        cat "$here/programs/postgres.conf" >>data/postgresql.conf
        $as pg_ctl -D data -w -l log -o "-k $PWD" start
        createdb load
        pgbench -i -q -s 8 load
        $as pg_ctl -D data -w -m fast stop
    ) >&2
    record more/postgres 60ms 140ns postgres --single -j -D data load <"$here/programs/postgres.sql" >answers
    cd ..
    as=
}

# With fewer timers; the compiler's threads still wait with a timeout, which the recorder takes for sleep (README).
make_java() {
    needs javac default-jdk-headless
    cp "$here/programs/Index.java" .
    javac Index.java
    record more/java 80ms 260ns java -XX:+UseSerialGC -Xmx112m -Xmn16m -XX:-UsePerfData -XX:+UnlockDiagnosticVMOptions \
        -XX:GuaranteedSafepointInterval=0 -XX:AsyncDeflationInterval=0 Index 22000 400000
}

make_go() {
    needs go golang-go
    cp "$here/programs/service.go" .
    CGO_ENABLED=0 go build -o service service.go
    GOMAXPROCS=1 record more/go 60ms 270ns ./service 14000 22000
}

# The compiler itself, not the program of rustup that looks for it.
make_rustc() {
    needs rustc rustc cargo cargo
    cp -r "$(sources regex-syntax)" regex-syntax
    record more/rustc 60ms 200ns "$(rustc --print sysroot)/bin/rustc" --edition 2021 --crate-type lib \
        --crate-name regex_syntax -C opt-level=2 -C codegen-units=1 --cap-lints allow --cfg 'feature="std"' \
        --cfg 'feature="unicode"' regex-syntax/src/lib.rs
}

make_numpy() {
    needs /usr/bin/python3 python3 /usr/bin/f2py3 python3-numpy
    cp "$here/programs/inference.py" .
    /usr/bin/python3 inference.py weights
    OPENBLAS_NUM_THREADS=1 record more/numpy 60ms 200ns /usr/bin/python3 inference.py 80
}

# Apache httpd, which can map its files and keep them mapped; what nginx reads from its files is not seen (README).
make_web() {
    needs apache2 apache2-bin python3 python3
    WEB_ROOT=$PWD WEB_PORT=7980
    export WEB_ROOT WEB_PORT
    python3 "$here/programs/web-load.py" files
    cp "$here/programs/web.conf" conf/web.conf
    python3 "$here/programs/web-load.py" load "$WEB_PORT" 1000 &
    record more/web 40ms 200ns apache2 -d "$PWD" -f conf/web.conf -X
    wait
}

make_zstd() {
    needs zstd zstd python3 python3
    python3 "$here/programs/mixed.py" 241172480 >mixed
    record more/zstd 80ms 110ns zstd -q -k --single-thread -9 --long=27 mixed -o out.zst
}

make_shell() {
    needs sh dash awk mawk
    cp "$here/programs/shell.sh" .
    record more/shell 20ms 120ns sh shell.sh 20
}
