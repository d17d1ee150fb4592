"""Uses of ``tf.cond``, ``tf.map_fn``, ``tf.TensorArray`` and the like, each eager and compiled."""


def both(tf, function, *args):
    return [function(*args), tf.function(function)(*args)]


def conditions(tf):
    def pick(x):
        return tf.cond(x > 2, lambda: x * 10, lambda: x - 1)

    return [each for x in (1, 5) for each in both(tf, pick, tf.constant(x))]


def cases(tf):
    def pick(x):
        pairs = [(x < 3, lambda: tf.constant(10)), (x < 6, lambda: x * 2)]
        return tf.case(pairs, default=lambda: tf.constant(-1))

    return [each for x in (1, 5, 9) for each in both(tf, pick, tf.constant(x))]


def switches(tf):
    def pick(x):
        functions = {0: lambda: tf.constant(10), 1: lambda: x * 7, 2: lambda: x + 100}
        return tf.switch_case(x, functions, default=lambda: tf.constant(-1))

    return [each for x in (-1, 0, 1, 2, 5) for each in both(tf, pick, tf.constant(x))]


def while_loops(tf):
    def powers(n):
        return tf.while_loop(
            lambda i, total: i < n, lambda i, total: (i + 1, total * 2), (0, tf.constant(1))
        )

    def limited(n):
        return tf.while_loop(lambda i: i < n, lambda i: [i + 1], [0], maximum_iterations=3)

    found = []
    for n in (0, 5):
        for pair in both(tf, powers, tf.constant(n)):
            found += pair
        for single in both(tf, limited, tf.constant(n)):
            found += single
    return found


def maps(tf):
    x = tf.constant([[1, 2], [3, 4], [5, 6]])
    found = both(tf, lambda x: tf.map_fn(lambda row: row * 2, x), x)
    found += both(
        tf,
        lambda x: tf.map_fn(
            lambda row: tf.cast(tf.reduce_sum(row), tf.float32), x, fn_output_signature=tf.float32
        ),
        x,
    )
    for pair in both(
        tf,
        lambda x: tf.map_fn(
            lambda rows: (rows[0] + rows[1], rows[0]),
            (x, x + 1),
            fn_output_signature=(tf.int32, tf.int32),
        ),
        x,
    ):
        found += pair
    return found


def folds(tf):
    x = tf.constant([5, 2, 9, 4])
    found = []
    for reverse in (False, True):
        found += both(tf, lambda x, r=reverse: tf.scan(lambda a, e: a * 2 - e, x, reverse=r), x)
        found += both(tf, lambda x, r=reverse: tf.scan(lambda a, e: a * 2 - e, x, 3, reverse=r), x)
    found += both(tf, lambda x: tf.foldl(lambda a, e: a * 2 - e, x), x)
    found += both(tf, lambda x: tf.foldr(lambda a, e: a * 2 - e, x), x)
    found += both(tf, lambda x: tf.foldr(lambda a, e: a * 2 - e, x, initializer=7), x)
    return found


def vectorized(tf):
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    return both(tf, lambda x: tf.vectorized_map(lambda row: row / tf.reduce_sum(row), x), x)


def arrays(tf):
    def squares(n, x):
        found = tf.TensorArray(tf.float32, size=4)
        for i in tf.range(n):
            found = found.write(i, x * tf.cast(i, tf.float32))
        return found.stack()

    def sometimes(n):
        found = tf.TensorArray(tf.int32, size=5, element_shape=[])
        for i in tf.range(n):
            if i % 2 == 0:
                found = found.write(i, i * i)
        return found.stack()

    def reads(x):
        source = tf.TensorArray(tf.float32, size=3, clear_after_read=False).unstack(x)
        total = tf.constant(0.0)
        for i in tf.range(tf.cast(x[0], tf.int32)):
            total += source.read(i)
        return total, source.gather([2, 0]), source.size()

    found = both(tf, squares, tf.constant(4), tf.constant([1.0, 2.0]))
    found += both(tf, sometimes, tf.constant(5))
    for each in both(tf, reads, tf.constant([3.0, 5.0, 7.0])):
        found += each
    parts = tf.TensorArray(tf.int32, size=0, dynamic_size=True, infer_shape=False)
    parts = parts.write(0, [1]).write(1, [2, 3])
    return [*found, parts.concat()]


def gradients(tf):
    @tf.custom_gradient
    def clipped(x):
        def backward(upstream):
            return tf.clip_by_value(upstream, -0.5, 0.5)

        return x * 3.0, backward

    @tf.custom_gradient
    def product(x, y):
        return x * y, lambda upstream: (upstream * 100.0, upstream * y)

    v, w = tf.Variable(2.0), tf.constant(3.0)
    found = []
    for function in (clipped, tf.recompute_grad(lambda x: x**3), tf.grad_pass_through(tf.floor)):
        with tf.GradientTape() as tape:
            result = function(v * v)
        found += [result, tape.gradient(result, v)]
    with tf.GradientTape() as tape:
        tape.watch(w)
        result = product(v, w)
    return [*found, *tape.gradient(result, [v, w])]


def strings(tf):
    @tf.function
    def shout(text):
        if tf.strings.length(text) > 2:
            return tf.strings.upper(text) + "!"
        return text

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def lengths(texts):
        return tf.strings.length(texts)

    @tf.function
    def numbered(x):
        return x + 1, tf.strings.as_string(x), tf.constant("same")

    @tf.function
    def both_kinds(given):
        return {"n": given["n"] * 2, "s": given["s"] + shout(tf.constant("abc"))}

    found = [shout(tf.constant("abc")), shout(tf.constant("ab")), lengths(tf.constant(["a", "bc"]))]
    found += numbered(tf.constant(4))
    pair = both_kinds({"n": tf.constant(1), "s": tf.constant("x")})
    return [*found, pair["n"], pair["s"]]


def python_values(tf):
    @tf.function
    def through(x):
        return tf.numpy_function(lambda a: a * 2, [x], tf.float32) + 1.0

    @tf.function
    def slope(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.py_function(lambda a: a * a, [x], tf.float32)
        return tape.gradient(y, x)

    return [through(tf.constant([1.0, 2.0])), slope(tf.constant(3.0))]


def stores(tf):
    @tf.function
    def store(x):
        found = {"a": x}
        if x > 2:
            found["a"] = x * 10
        else:
            found["a"] = x - 1
        return found["a"]

    return [store(tf.constant(5)), store(tf.constant(1))]


def growing(tf):
    def long(*values):
        return tf.constant(values, tf.int64)

    @tf.function
    def doubled(start, limit):
        array = tf.TensorArray(tf.int64, size=0, dynamic_size=True)
        array = array.write(0, start)
        for i in tf.range(5):
            last = array.stack()[-1] * 2
            array = array.write(i + 1, last)
            if last >= limit:
                break
        return array.stack()

    @tf.function
    def positive(values):
        array = tf.TensorArray(tf.int64, size=0, dynamic_size=True)
        for value in values:
            if value > 0:
                array = array.write(array.size(), value)
        return array.stack()

    @tf.function
    def in_one_branch(x):
        array = tf.TensorArray(tf.int64, size=2, element_shape=())
        array = array.write(0, x)
        if x > 0:
            array = array.write(1, 2 * x)
        return array.stack()

    @tf.function
    def returned_early(x):
        array = tf.TensorArray(tf.int64, size=0, dynamic_size=True)
        array = array.write(0, x)
        if x > 0:
            return array.stack()
        array = array.write(1, 2 * x)
        return array.stack()

    @tf.function
    def given_as_function(x):
        array = tf.TensorArray(tf.int64, size=0, dynamic_size=True).write(0, x)
        array = tf.cond(x > 0, lambda: array.write(1, x), lambda: array)
        return array.stack()

    found = [doubled(tf.constant(1, tf.int64), tf.constant(limit, tf.int64)) for limit in (7, 99)]
    found.append(positive(long(1, -2, 3)))
    for function in (in_one_branch, returned_early, given_as_function):
        found += [function(tf.constant(x, tf.int64)) for x in (1, -1)]
    return found


def written_in_branches(tf):
    @tf.function
    def in_one_branch(n):
        array = tf.TensorArray(tf.int32, size=5)
        for i in range(5):
            if i < n:
                array = array.write(i, i * n)
        return array.stack()

    @tf.function
    def in_either(n):
        array = tf.TensorArray(tf.float32, size=4)
        for i in range(2):
            if n > i:
                row = [1.0, 2.0]
                array = array.write(2 * i, row)
            else:
                array = array.write(2 * i + 1, [3.0, 4.0])
        return array.stack()

    @tf.function
    def until(n):
        array = tf.TensorArray(tf.int32, size=4)
        for i in tf.range(4):
            if i == n:
                break
            array = array.write(i, n)
        return array.stack()

    @tf.function
    def of_other_shapes(n):
        array = tf.TensorArray(tf.int32, size=3, infer_shape=False)
        array = array.write(0, [n]).write(2, [n, n, n])
        array = array.write(1, [n, n]) if n > 0 else array.write(1, [1, n])
        return array.concat()

    @tf.function
    def in_a_tuple(n):
        arrays = (tf.TensorArray(tf.int32, size=3), tf.TensorArray(tf.float32, size=3))
        for i in range(3):
            values = (n + i, tf.cast(n, tf.float32) / 2)
            if n > i:
                arrays = tuple(a.write(i, v) for a, v in zip(arrays, values, strict=True))
        return [array.stack() for array in arrays]

    @tf.function
    def at_one_place(n):
        array = tf.TensorArray(tf.int32, size=3)
        array = array.write(2, n)
        while n > 0:
            array = array.write(1, n * 10)
            n -= 1
        return array.stack()

    @tf.function
    def slope(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            array = tf.TensorArray(tf.float32, size=3)
            for i in range(3):
                if x > i:
                    array = array.write(i, x * x)
            total = tf.reduce_sum(array.stack())
        return tape.gradient(total, x)

    found = []
    for function in (in_one_branch, in_either, until, of_other_shapes, at_one_place):
        found += [function(tf.constant(n)) for n in (2, 1)]
    found += in_a_tuple(tf.constant(2))
    return [*found, slope(tf.constant(1.5)), slope(tf.constant(0.5))]


def other_sizes(tf):
    @tf.function
    def assigned(x):
        if tf.reduce_sum(x) > 0:
            y = x[:1]
        else:
            y = x * 2
            y = y + 1
        return y

    @tf.function
    def returned(x):
        if tf.reduce_sum(x) > 0:
            return x[:1]
        return x

    @tf.function
    def chosen(x):
        return x[:1] if tf.reduce_sum(x) > 0 else x

    @tf.function
    def given_as_functions(x):
        return tf.cond(tf.reduce_sum(x) > 0, lambda: x[:1], lambda: x)

    functions = (assigned, returned, chosen, given_as_functions)
    return [f(tf.constant(x)) for f in functions for x in ([1.0, 2.0], [-1.0, 0.0])]


PROGRAMS = [
    conditions,
    cases,
    switches,
    while_loops,
    maps,
    folds,
    vectorized,
    arrays,
    gradients,
    strings,
    python_values,
    stores,
    growing,
    written_in_branches,
    other_sizes,
]
